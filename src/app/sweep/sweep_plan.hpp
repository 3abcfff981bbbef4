// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/sweep/halving.hpp>
#include <distdl/app/sweep/sweep.hpp>

namespace distdl::app {

/// State of a run, according to its folder. The state and the value are those of result.json, which the run writes when
/// all before is saved. The rows of metrics.jsonl are shown, and decide nothing: a run may be killed after a row.
struct SweptRun {
  enum class State {
    none,
    unfinished,
    paused,  ///< it has ended at train.end_at_step
    finished,
    failed
  };
  State state = State::none;
  std::int64_t steps = 0;                      ///< number of steps done
  std::optional<double> value = {};            ///< value of the last evaluation of a run that has paused or finished
  std::int64_t saved = -1;                     ///< step of its newest checkpoint; -1: it has none
  std::map<std::int64_t, double> values = {};  ///< values of evaluations, by their steps
  std::string failure = {};                    ///< why it failed, in words
  int code = 0;                                ///< exit code of a run that has failed

  /// Value of the last evaluation up to this step; nothing: there was none.
  std::optional<double> value_at(std::int64_t step) const;
  /// Value of the best evaluation of all; nothing: there was none.
  std::optional<double> best(train::Metric metric) const;
};

/// Reads result.json, metrics.jsonl and the names of the checkpoints. What cannot be read counts as not there.
SweptRun read_swept_run(const std::filesystem::path& folder, train::Metric metric);

/// Runs that train next, to the same step.
struct SweepRung {
  std::vector<std::size_t> runs = {};  ///< runs that take part
  std::int64_t end_at = 0;             ///< step after which they end; 0: the whole length of the job
  std::vector<std::size_t> left = {};  ///< runs of these that have not reached the step yet
  std::int64_t number = 0;             ///< number of the round or rung to be decided when none is left; 0: none

  bool is_last() const { return left.empty() && number == 0; }  ///< the sweep is done
};

/// Decisions of a sweep so far, according to the files in its folder.
struct SweepDecisions {
  std::int64_t rounds_held = 0;         ///< number of rounds of a tournament that were held
  std::vector<HalvingRung> rungs = {};  ///< rungs of halving
};
/// Throws StorageError.
SweepDecisions read_decisions(const Sweep& sweep);

/// Returns the runs to train now. They depend on the sweep, its decisions and the state of its runs alone, so that a
/// sweep goes on where it was.
/// Grid and random: all runs, to their end. Halving: of n runs, the best n / keep_one_in go on, keep_one_in times as
/// far, until fewer than keep_one_in are left, which train to their end. See Jamieson and Talwalkar, "Non-stochastic
/// best arm identification and hyperparameter optimization", 2016. A run that has failed has the worst value.
/// Tournament: all runs, to the end of the round after those that were held, and then to their end.
SweepRung next_rung(const Sweep& sweep, const std::vector<SweptRun>& runs, const SweepDecisions& decisions = {});

/// Decides which runs of a rung go on. All of them are there.
HalvingRung decide_rung(const Sweep& sweep, const std::vector<SweptRun>& runs, const SweepRung& rung,
                        const SweepDecisions& decisions);

/// Value by which a run is ranked: that of its best evaluation; of a tournament, where models go from run to run, that
/// of the last one.
std::optional<double> value_of(const Sweep& sweep, const SweptRun& run);

/// The runs, the best first; those without a value last. Of halving, a run that went on longer is better than one that
/// did not.
std::vector<std::size_t> ranking(const Sweep& sweep, const std::vector<SweptRun>& runs);

/// True if a value is better than another one; none is the worst.
bool is_better_value(train::Metric metric, std::optional<double> one, std::optional<double> other);

/// Reads all runs of the sweep in this folder.
std::vector<SweptRun> read_swept_runs(const Sweep& sweep, const std::filesystem::path& folder);

}  // namespace distdl::app
