// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

// Answers of Slurm's controller, as plain values.
namespace distdl::slurm {

using Time = std::chrono::system_clock::time_point;
using Seconds = std::chrono::seconds;

/// The controller's record of a job. Texts are empty where Slurm reports none.
struct JobRecord {
  std::string id = {};    ///< "17"; of a task of an array its own number, not "12_3"
  std::string name = {};  ///< any text
  std::string user = {};  ///< "alice"
  std::optional<std::int64_t> user_id = {};
  std::string state = {};         ///< in Slurm's words: "PENDING", "RUNNING", "COMPLETING", "CANCELLED", ...
  std::string reason = {};        ///< why it waits, or ended: "Resources", "NonZeroExitCode"; empty: none
  std::int64_t restarts = 0;      ///< how often it was requeued
  bool may_requeue = false;       ///< sbatch --requeue, or the site's JobRequeue
  bool is_batch = false;          ///< it has a script, unlike a job of salloc or srun
  int exit_code = 0, signal = 0;  ///< result of the batch script, once it has ended
  std::string partition = {};     ///< "batch"; while it waits, all that it may go to: "batch,urgent"
  std::string qos = {}, account = {};
  std::optional<Time> submitted = {}, started = {};  ///< `started`: while it waits, when Slurm means to start it
  std::optional<Time> ends = {};                     ///< or ended; nothing while it has no end that is known
  std::optional<Time> preempted = {};                ///< when it was chosen for preemption
  std::optional<Seconds> time_limit = {};            ///< nothing: it has none
  std::string node_list = {}, excluded_nodes = {};   ///< "n[1-3]"
  std::string batch_host = {};                       ///< node of the batch script
  int nodes = 0;                                     ///< number of nodes that it has, or asks for
  int tasks = 0;                                     ///< number on all its nodes together; 0: not reported
  int tasks_per_node = 0;                            ///< 0: not asked for
  std::int64_t cpus_per_task = 0;                    ///< 0: not reported
  std::string gpus = {};        ///< GPUs of all its nodes together, "8" or "a100:8"; empty: not asked for like that
  std::string array_task = {};  ///< "17_3" of a task of an array
  std::string component = {};   ///< "17+1" of a component of a heterogeneous job
  std::optional<int> fewest_nodes = {};  ///< number with which it may start (sbatch --nodes=MIN-MAX), if reported
  std::string dependency = {}, command = {}, work_folder = {}, output = {},
              comment = {};  ///< `output`: the file of its stdout

  /// It has at least one node that works for it.
  bool is_alive() const;
  /// It runs nowhere: it waits, or has ended on all of its nodes. A job that is COMPLETING is neither alive nor this.
  bool is_inactive() const;
  bool is_pending() const { return state == "PENDING"; }
};

/// Effect of a preemption on a job.
enum class PreemptMode {
  off,      ///< it is never preempted
  cancel,   ///< SIGTERM, after the grace time SIGTERM and, KillWait later, SIGKILL
  requeue,  ///< SIGTERM and, KillWait later, SIGKILL; then it waits again
  suspend,  ///< stopped (SIGSTOP) where it is, and continued later
  unknown,
};
/// "CANCEL", as Slurm writes it; of `unknown` "unknown".
const char* name_of(PreemptMode mode);

struct Partition {
  std::string name = {};
  PreemptMode preempt_mode = PreemptMode::unknown;  ///< mode of its jobs, if PreemptType is preempt/partition_prio
  Seconds grace{0};                                 ///< GraceTime
  std::optional<Seconds> longest = {};              ///< MaxTime; nothing: no limit
  int priority_tier = 0;
  std::string state = {};  ///< "UP", "DOWN", "DRAIN", "INACTIVE"
};

/// The settings of the site that a run depends on.
struct Settings {
  std::string version = {};  ///< "22.05.8"
  std::string cluster = {};
  Seconds kill_wait{30};         ///< from SIGTERM to SIGKILL
  Seconds slurmd_timeout{300};   ///< after which a silent node is given up
  Seconds message_timeout{10};   ///< time in which the controller answers
  int slurmd_port = 6818;        ///< for nodes without one of their own
  Seconds credential_life{120};  ///< cred_expire of AuthInfo: a job that lost a node waits that long before it restarts
  std::string preempt_type = {};  ///< "preempt/partition_prio", "preempt/qos", "preempt/none"
  PreemptMode preempt_mode = PreemptMode::unknown;
  bool sends_user_signal = false;  ///< a preempted job gets the signal of --signal at once
  bool requeues = false;           ///< JobRequeue: jobs may be requeued unless they say otherwise
};

}  // namespace distdl::slurm
