// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>
#include <distdl/train/options.hpp>

// Many runs of one job that differ in some keys: what "distdl sweep" reads from a file.
namespace distdl::app {

enum class SweepMethod { grid, random, halving, tournament };
constexpr std::array<Named<SweepMethod>, 4> choices_of(SweepMethod) {
  return {{
      {SweepMethod::grid, "grid", "every combination of the values"},
      {SweepMethod::random, "random", "runs with values drawn at random"},
      {SweepMethod::halving, "halving", "random runs, of which only the best go on after some steps"},
      {SweepMethod::tournament, "tournament",
       "random runs that meet in pairs now and then, and go on with the better model"},
  }};
}

/// A key of the job file, and the values that it gets.
struct SweptKey {
  std::string key;                       ///< "optim.learning_rate"
  std::vector<std::string> values = {};  ///< in TOML; empty: there is a range
  double least = 0, most = 0;            ///< limits of the range, both included
  bool is_whole = false, is_log = false;
};

struct Sweep {
  std::string job;     ///< job file
  std::string folder;  ///< folder of the sweep; the runs lie in it
  OneOf<SweepMethod> method = SweepMethod::grid;
  OneOf<train::Metric> metric = train::Metric::loss;  ///< metric of evaluations by which runs are compared
  std::int64_t runs = 0;                              ///< number of random draws
  std::int64_t seed = 1;                              ///< seed of the draws
  std::int64_t at_once = 1;                           ///< runs that go on beside each other
  std::int64_t ranks = 1;                             ///< number of ranks of each run
  /// Steps after which halving compares runs first; steps of each round of a tournament.
  std::int64_t first_steps = 0;
  std::int64_t rounds = 0;          ///< number of rounds of a tournament
  std::int64_t keep_one_in = 3;     ///< halving: one of so many runs goes on, so many times as far
  std::vector<SweptKey> keys = {};  ///< by their names
};

/// Calls visit(key, field, help) for every key of the table [sweep].
template <class Visitor>
void describe(Sweep& sweep, Visitor&& visit) {
  visit("job", sweep.job, "job file of all runs");
  visit("folder", sweep.folder, "folder of the sweep, in which each run has a folder; all nodes must see it");
  visit("method", sweep.method, OneOf<SweepMethod>::help("which runs there are"));
  visit("metric", sweep.metric, OneOf<train::Metric>::help("by which evaluations are compared"));
  visit("runs", sweep.runs, "number of runs; not for a grid");
  visit("seed", sweep.seed, "seed of the values that are drawn");
  visit("at_once", sweep.at_once, "number of runs that train beside each other");
  visit("ranks", sweep.ranks, "number of ranks of each run, with --local and within an allocation");
  visit("first_steps", sweep.first_steps,
        "halving: steps after which the runs are compared for the first time; tournament: steps of a round");
  visit("rounds", sweep.rounds, "tournament: number of rounds; after the last one all runs train to their end");
  visit("keep_one_in", sweep.keep_one_in,
        "halving: the best one in so many goes on, for so many times as many steps, again and again");
}

/// Throws ConfigError that names the file `name`, the line and the key.
Sweep sweep_from(const std::string& text, const std::string& name);
/// Reads a sweep from a file. Throws ConfigError as sweep_from() does, and StorageError if the file cannot be read.
Sweep read_sweep(const std::filesystem::path& file);

/// The keys of one run in the words of --set, in the order of Sweep::keys: "optim.learning_rate=0.1".
using SweepPoint = std::vector<std::string>;
/// All runs. They depend on the sweep alone: run i of a random sweep is the same whatever Sweep::runs is.
std::vector<SweepPoint> points_of(const Sweep& sweep);

/// "0007", below Sweep::folder.
std::string name_of_run(std::size_t run);

/// The copy of the sweep file in Sweep::folder, by which others know that it is one.
inline constexpr const char* kSweepFile = "sweep.toml";

}  // namespace distdl::app
