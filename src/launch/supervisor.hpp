// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

class SupervisorSignals;

/// One process to start: a rank, or the srun that starts all ranks.
struct Process {
  std::vector<std::string> command;
  std::map<std::string, std::string> variables;  ///< added to the environment
};

/// What the supervisor starts, and how it sees progress.
struct LaunchSpec {
  std::vector<std::string> worker;    ///< command line of a rank
  std::filesystem::path checkpoints;  ///< of the run: a new one there counts as progress
  int ranks = 1;
  std::optional<slurm::Allocation> allocation;  ///< nothing: the ranks are processes on this machine
  /// The first steps of all starts of the run so far, the oldest start first. A start at a later step than before
  /// counts as progress too: the run then advances by snapshots, without checkpoints.
  std::function<std::vector<Step>()> starts = {};
  /// The last step of any start of the run so far. A launch that trained, and failed at another step than the launch
  /// before, does not count against the limit of relaunches: training is deterministic, so the run is not the cause.
  std::function<std::optional<Step>()> last_done = {};
  /// More arguments for the ranks, until a launch has begun to train.
  std::vector<std::string> at_first = {};
  /// The rank's option for resuming below a step, which the supervisor appends. It is used after two launches that
  /// began at the same step made no progress: the next ones resume from the checkpoint before, if there is one. Empty:
  /// never.
  std::string below = {};
  FolderLock* lock = nullptr;  ///< of the run folder: once it is lost, the ranks are ended
};

/// The processes of one launch: `ranks` local ones with the rendezvous folder `rendezvous`, or one srun, whose step has
/// the name "distdl-<launch_id>".
std::vector<Process> processes_of(const LaunchSpec& spec, const Options& options,
                                  const std::filesystem::path& rendezvous, const std::string& launch_id);

/// Throws ConfigError for values that make no sense.
void check(const Options& options);

/// Starts and supervises the ranks: forwards signals, relaunches them after a crash, requeues the Slurm job when
/// the ranks stopped on purpose. Returns the exit code of the run: ok, requeue (stopped, also between two launches),
/// superseded (another start has taken the run folder), or the ranks' code. Throws ConfigError for options that make no
/// sense. Blocks SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and, unless it is ignored, SIGHUP in the calling thread.
int supervise(const LaunchSpec& spec, const Options& options);
/// The same with signals that are watched already. A signal that has come before stops the run before the first launch.
int supervise(const LaunchSpec& spec, const Options& options, SupervisorSignals& signals);

}  // namespace distdl::launch
