// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/records/record.hpp>

namespace distdl::observe {

/// State of a run, according to its journal.
enum class Phase {
  unknown,   ///< there is no journal
  queued,    ///< a job waits
  starting,  ///< ranks are being started, connected and restored
  training,
  down,      ///< the ranks have failed, and the supervisor looks for a way on
  stopping,  ///< the ranks have saved or finished; the job ends
  stopped,   ///< with work left: run again to go on
  ended,     ///< for good, by a user or because running again would not help
  finished,  ///< all steps done, or ended early
};

/// A start that went on with what was there.
struct RestartSummary {
  double time = 0;                     ///< seconds since 1970
  std::string cause = {};              ///< "peer lost", "node lost", "signal SIGUSR1", "the job ended without a word"
  std::string cause_code = "unknown";  ///< the same as a code (causes.hpp)
  std::optional<std::int64_t> start = {};  ///< number of the start, as its checkpoints have it
  Step resumed_from = {};
  std::int64_t repeated = 0;              ///< steps that had to be done again
  std::string kind = {};                  ///< kind of the cause, where agents report it: "killed", "node lost" ...
  std::string node = {};                  ///< node of the cause, likewise
  std::optional<std::int64_t> rank = {};  ///< rank of the cause, likewise
  double found = 0;                       ///< when the failure was found, seconds since 1970; 0: not known
};

struct SaveSummary {
  Step step;
  double time = 0, seconds = 0;
};

/// The newest state that is on a level: "memory", "partner", "parity", "disk".
struct LevelSummary {
  std::string level;
  Step step;
  double time = 0;
};

/// An evaluation on the validation data.
struct EvaluationSummary {
  Step step;
  double time = 0;  ///< seconds since 1970; 0: not known
  double loss = 0;
  std::optional<double> accuracy = {};
};

/// How the ranks of the last start share the microbatches, and how fast they are. The lists have one entry per rank. Or
/// how servers share the parameters: elements and element seconds, per server.
struct ShareSummary {
  double time = 0;
  int moves = 0;  ///< number of moves since that start
  std::vector<std::int64_t> shares = {};
  std::vector<double> microbatch_seconds = {};
  std::vector<std::string> hosts = {};
  int back = 0;                ///< number of moves that were taken back
  std::string went_back = {};  ///< why the last of these was taken back
};

/// Measurements of the ranks of the last start that do not count, because a rank was suspended meanwhile. The lists
/// have one entry per rank, or none.
struct DisturbedSummary {
  std::vector<std::int64_t> measurements = {};
  std::vector<std::string> hosts = {};
};

/// The jobs of a parameter server: the rank of each task. Lists are empty without one.
struct ClusterSummary {
  std::vector<Rank> servers = {}, workers = {};
  std::vector<std::string> hosts = {};  ///< hosts of all ranks
};

struct RunSummary {
  Phase phase = Phase::unknown;
  std::vector<std::string> jobs = {};     ///< all ids of Slurm, the oldest first
  std::vector<std::string> waiting = {};  ///< ids of the jobs that have not started
  std::string job = {};                   ///< id of the job that started last; empty: none, or without Slurm
  std::int64_t restart = 0, ranks = 0, nodes = 0;
  std::string host = {};  ///< host of "distdl run"
  /// Version, processor and backend, as the last job or start reported them; empty: none did.
  std::string distdl = {}, processor = {}, backend = {};
  /// Choice of parallel.strategy = "auto" with its reason, or the roles of ranks; empty: neither.
  std::string product = {};
  ClusterSummary cluster = {};
  std::optional<Step> step = {}, total = {};
  std::optional<double> loss = {};
  std::optional<EvaluationSummary> evaluation = {};      ///< the newest one of the rows that were read
  double steps_per_second = 0;                           ///< speed over the last steps; 0: not known
  std::optional<double> mfu = {}, hfu = {};              ///< medians of the last steps, 0 .. 1
  records::Compute compute = {};                         ///< work and speed of the last start; zeros: not known
  std::optional<records::ResourcesUsed> resources = {};  ///< resources of the last start, as it reported them last
  std::optional<SaveSummary> checkpoint = {}, snapshot = {};
  std::vector<LevelSummary> levels = {};  ///< levels besides the file system; empty: none, or the rows do not tell
  std::vector<RestartSummary> restarts = {};
  std::vector<std::string> at_risk = {};        ///< nodes that may fail soon, since that start: "n2 (corrected_errors)"
  std::vector<std::string> alerts = {};         ///< alerts that hold: "loss rising: the mean loss ..."
  ShareSummary shares = {};                     ///< empty lists: not known
  ShareSummary ranges = {};                     ///< shares of a parameter server; empty lists: not known
  DisturbedSummary disturbed = {};              ///< empty lists: no rank was suspended
  std::optional<int> code = {};                 ///< exit code of the last job or launch that ended
  std::string cause = {};                       ///< cause of the end of the last launch
  std::string early = {};                       ///< why it finished before its last step; empty: it did not
  std::string failure = {}, failure_code = {};  ///< why the run failed, in words and as a code; empty: it did not
  std::optional<std::int64_t> start = {};       ///< number of the last start; nothing: not known
  double first_time = 0, last_time = 0;  ///< first row of the journal, newest row of all; seconds since 1970; 0: none
  std::optional<double> job_end = {};    ///< when Slurm will end the job, where a row "deadline" tells
  std::string deadline = {};             ///< the rule that follows from it, in words
};

/// `metrics`: the last rows of metrics.jsonl.
RunSummary summarize(const std::vector<records::Row>& journal, const std::vector<records::Row>& metrics);
RunSummary summarize_run(const std::filesystem::path& run_folder);

/// The newest evaluation of a run, which may lie further back in metrics.jsonl than summarize_run() reads: in its last
/// 16 MiB.
std::optional<EvaluationSummary> find_evaluation(const std::filesystem::path& run_folder);

/// "training", "stopped".
const char* name_of(Phase phase);

}  // namespace distdl::observe
