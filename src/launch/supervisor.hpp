// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/agent/stall_watch.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::launch {

/// Functions that the supervisor calls as its launches begin and end.
struct LaunchEvents {
  /// `nodes`: nodes of the launch; empty: all nodes of the job. `id`: id of the launch.
  std::function<void(int ranks, const std::vector<std::string>& nodes, const std::string& id)> began = {};
  /// `cause`: "peer lost", "killed by SIGKILL", "srun failed".
  std::function<void(int code, const std::string& cause, bool told_to_stop)> ended = {};
  std::function<void()> lost_node = {};  ///< a node of the launch that ended does not answer
  std::function<void()> requeued = {};
};

/// The processes that the supervisor starts, and the functions by which it observes progress.
struct LaunchSpec {
  std::vector<std::string> worker;    ///< command line of a rank
  std::filesystem::path checkpoints;  ///< folder of the run's checkpoints; a new one counts as progress
  int ranks = 1;
  std::optional<slurm::Allocation> allocation;  ///< empty: the ranks are processes on this machine
  slurm::JobLimits limits = {};                 ///< limits of the job at the launch; supervise() asks for them
  /// The first steps of all starts of the run so far, oldest start first. A start at a later step than before also
  /// counts as progress, because the run then advances by snapshots without checkpoints.
  std::function<std::vector<Step>()> starts = {};
  /// The last step of any start of the run so far. A launch that trained, and failed at another step than the previous
  /// launch, does not count against the limit of relaunches: training is deterministic, so the run is not the cause.
  std::function<std::optional<Step>()> last_done = {};
  /// Additional arguments for the ranks, until a launch has begun to train.
  std::vector<std::string> at_first = {};
  /// The rank's option for resuming before a step, which the supervisor appends. It is used after two launches that
  /// began at the same step made no progress: the next launches resume from an earlier checkpoint, if there is one.
  /// Empty: never used.
  std::string below = {};
  /// Whether ranks crashed twice after the same step in the launch that ended, as its agents say. The next launch then
  /// resumes from an earlier checkpoint at once.
  std::function<bool()> is_poisoned = {};
  /// Whether a rank of the present launch has reported an error. An srun that started the ranks itself has to end soon
  /// after that: for the task of a lost node it waits until Slurm gives the node up.
  std::function<bool()> has_failed = {};
  /// Under Slurm: srun starts "distdl agent" on each node with the words of `worker`, and the agents start the ranks
  /// (../agent/README.md). Else srun starts the ranks.
  bool agents = false;
  Milliseconds node_lost{4000};  ///< a node whose host answers nothing for so long is lost (run.node_lost_seconds)
  std::string mpi = "pmix";      ///< srun's --mpi; "none": ranks and agents find each other by files in the run folder
  int spares = 0;                ///< nodes on which the agents start no ranks until another is lost (run.spares)
  int min_nodes = 1;             ///< fewest nodes with which the agents continue after the loss of others
  /// Nodes of the job that are left out because they were slow or silent. A launch uses them if it has too few others.
  std::vector<std::string> second_choice = {};
  FolderLock* lock = nullptr;  ///< lock of the run folder; when it is lost, the ranks are ended
  /// Returns true if a user has asked the run to stop for good. The ranks check that themselves; here it prevents a
  /// further launch and a requeue. Called between launches.
  std::function<bool()> ends_for_good = {};
  /// Nodes of the job that an audit has found wrong since this start began; later launches avoid them. Called between
  /// launches.
  std::function<std::vector<std::string>()> wrong_nodes = {};
  /// The ranks run programs of others (run.command): what these leave behind on this machine is ended with the launch.
  bool runs_program = false;
  agent::StallLimits stall = {};  ///< local ranks that make no progress are ended by these limits
  LaunchEvents events = {};
  std::string id = {};  ///< id of the launch; supervise() gives each a new one
};

/// Throws ConfigError for invalid values.
void check(const Options& options);

/// Starts and supervises the ranks: forwards signals, relaunches the ranks after a crash, and requeues the Slurm job
/// when they stopped on purpose. Returns the exit code of the run: ok, requeue (stopped, also between two launches),
/// stopped (for good), superseded (another start has taken the run folder), or the code of the ranks. Throws
/// ConfigError for invalid options. Blocks SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and, unless it is ignored, SIGHUP
/// in the calling thread.
int supervise(const LaunchSpec& spec, const Options& options);
/// Uses signals that are already blocked. A signal that was sent before stops the run before the first launch.
int supervise(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals);

}  // namespace distdl::launch
