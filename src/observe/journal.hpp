// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/record_writer.hpp>

// What happens to a run beside training: its jobs and launches. RunFolder writes the events of training to the same
// file, journal.jsonl. The ledger (ledger.hpp) and the commands status, ls, cancel and requeue read them.
namespace distdl::observe {

/// A job was given to Slurm for the run.
struct Submitted {
  std::string job;         ///< Slurm's id
  std::string chain = {};  ///< id of the chain that it is a link of; empty: none
  int link = 1, links = 1;
};

/// "distdl run" begins, in a job or on a machine of its own.
struct JobStarted {
  std::string job = {};  ///< empty: none
  std::int64_t restart = 0;
  std::string host = {}, chain = {};
  int ranks = 1, nodes = 1;
  double submit_time = 0;                   ///< seconds since 1970, of the last (re)submission; 0: not known
  std::string distdl = {}, processor = {};  ///< version of the program, kind of the host's processor
};

/// The nodes were checked before the first launch.
struct NodesChecked {
  int nodes = 1;
  double seconds = 0;
  std::vector<std::string> excluded = {};
  std::string cause = {};       ///< what is the matter with those that are not well
  std::string unmeasured = {};  ///< whose links were not measured, and why
};

/// The ranks are started.
struct LaunchBegan {
  int ranks = 1;
  std::string nodes = {};  ///< on these; empty: on all of the job
  std::string id = {};     ///< of the launch
};

/// All ranks have ended.
struct LaunchEnded {
  int code = 0;
  std::string cause = {};      ///< "rank lost", "killed by signal 9", "srun failed" ...
  bool asked_to_stop = false;  ///< by a signal
};

/// A generation of ranks within a launch broke off. The row is called "failure", and its time is that at which an agent
/// found the fault.
struct GenerationFailed {
  std::int64_t generation = 0;
  double found = 0;        ///< seconds since 1970
  std::string cause = {};  ///< "n2: rank 1 was killed by SIGKILL"
  std::string kind = {};   ///< "killed", "node lost" ...; empty: not known
  std::string node = {};   ///< that it is about; empty: not known
  std::optional<int> rank = {};
};

/// The ranks of another generation within a launch are started.
struct GenerationBegan {
  std::int64_t generation = 0;
  std::string cause = {};
  int ranks = 1;
  std::string nodes = {};
};

/// What parallel.strategy = "auto" means in this start of the ranks, which stages their pipelines have, or who has
/// which role with "parameter_server".
struct ProductChosen {
  int ranks = 1;
  std::string product;  ///< "4x1x1 sharded", "parameter_server"
  std::string reason;
  std::vector<Rank> servers = {}, workers = {};  ///< with "parameter_server", in the order of their tasks
  std::vector<std::string> hosts = {};           ///< then: of all ranks
};

/// A node of the launch that ended does not answer.
struct NodeLost {};

/// A node is likely to fail soon.
struct NodeAtRisk {
  std::string host;
  std::string sign;  ///< the feature that says so most
  double risk = 0;   ///< 0 .. 1
};

/// A rule [[alert]] of the job began to hold.
struct AlertRaised {
  std::int64_t rule = 1;  ///< its number in the job file, from 1
  std::string when;       ///< "loss rising"
  std::string cause;
  std::optional<std::int64_t> step = {};  ///< done then
};

/// It no longer holds.
struct AlertCleared {
  std::int64_t rule = 1;
  std::string when;
};

/// The job was put back into Slurm's queue.
struct Requeued {
  std::string job;
};

/// "distdl run" ends.
struct JobEnded {
  std::string job = {}, chain = {};
  int code = 0;
  bool is_final = false;        ///< the run must not be started again by itself: what follows in the chain is cancelled
  bool has_progressed = false;  ///< a rank trained further in this job than any before
  bool is_refused = false;      ///< the job is not possible in this folder, which stays as the job before has left it
};

/// "distdl run" gives the run up, for this job or for good.
struct RunFailed {
  std::string job = {};
  std::optional<Step> step = {};  ///< done last
  int code = 0;
  std::string cause = {}, cause_code = {};  ///< in words, and of causes.hpp
};

/// A user asked for an end of the run.
struct CancelRequested {
  std::string job = {};
  std::string reason = {};  ///< "distdl cancel", "the file STOP"
};

/// Appends rows to the journal of a run. Each row has "event" and "time" (seconds since 1970).
class Journal {
 public:
  explicit Journal(const std::filesystem::path& run_folder, TornLine torn = TornLine::end);

  void append(const Submitted& event);
  void append(const JobStarted& event);
  void append(const NodesChecked& event);
  void append(const LaunchBegan& event);
  void append(const LaunchEnded& event);
  void append(const GenerationFailed& event);
  void append(const GenerationBegan& event);
  void append(const ProductChosen& event);
  void append(const NodeLost& event);
  void append(const NodeAtRisk& event);
  void append(const AlertRaised& event);
  void append(const AlertCleared& event);
  void append(const Requeued& event);
  void append(const RunFailed& event);
  void append(const JobEnded& event);
  void append(const CancelRequested& event);

 private:
  RecordWriter writer_;
};

/// All rows that can be read, in the order of the file.
std::vector<Record> read_journal(const std::filesystem::path& run_folder);

struct LaunchFailure {
  std::string cause, cause_code;
};
/// Why the newest launch or generation of the run failed: what rank 0 told, else its agents, else the supervisor. That
/// a rank waited in vain for another one counts only if nobody knows more. Nothing if nobody told anything.
std::optional<LaunchFailure> last_failure(const std::vector<Record>& journal);

/// The code of the cause that a row tells, also of a row of version 1.
std::string cause_code_of(const Record& row);

/// The id of the launch that goes on, as far as the journal knows: empty if an older distdl has begun it; nothing if
/// none does since the newest start of the run.
std::optional<std::string> present_launch(const std::filesystem::path& run_folder);

/// Whether the newest launch of the run ended at a poison step: ranks crashed twice after the same step.
bool has_met_poison(const std::vector<Record>& journal);

/// Whether a job of this chain has ended the run for good since `job` was submitted, which must not start it again
/// then.
bool chain_has_ended(const std::vector<Record>& journal, const std::string& chain, const std::string& job);

/// Ids of the jobs of the chain that were submitted after `job` and have not started.
std::vector<std::string> links_after(const std::vector<Record>& journal, const std::string& chain,
                                     const std::string& job);

/// How the job before in the same chain has ended; null if there is none, or it could not tell.
const Record* last_end_of_chain(const std::vector<Record>& journal, const std::string& chain);

}  // namespace distdl::observe
