// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/observe/journal.hpp>

namespace distdl::app {

/// Records of "distdl run" about its job in the run folder, and its actions for the chain that the job is a link of.
class RunRecords {
 public:
  /// Makes the run's identity, and notes that this job begins. The folder must exist.
  RunRecords(const std::filesystem::path& folder, const launch::LaunchSpec& spec);

  /// True if an earlier link of the chain has ended the run for good: there is nothing to do then.
  bool run_has_ended() const { return has_ended_; }
  /// Lets the supervisor note its launches here, and see the file STOP. `spec` must not outlive this. After a requeue
  /// Slurm is told which nodes the run avoids (run.bad_node_hours).
  void attach(launch::LaunchSpec& spec, double bad_node_hours);
  /// Notes the check of the nodes. Later links of the chain avoid the nodes that were left out.
  void checked_nodes(const records::NodesChecked& event);
  /// Notes the end, in result.json too unless the ranks have done that, or the job was refused. Cancels the rest of the
  /// chain if it would not help to go on. `error`: what ended "distdl run" itself.
  void ended(int code, const std::string& error = {});
  /// True if a job that ends with this code was not possible in the folder of a run that has trained before: it leaves
  /// the run as it was.
  bool is_refused(int code) const;

 private:
  bool is_final(int code, bool has_progressed) const;
  /// True if the link of the chain before this one failed without progress.
  bool link_before_failed() const;
  void note_end(int code, const std::string& error, std::optional<Step> step);
  bool has_result() const;
  void cancel_rest_of_chain() const;

  std::filesystem::path folder_;
  observe::Journal journal_;
  std::string job_, chain_;
  std::string cause_;  ///< cause of the end of the last launch
  bool has_ended_ = false;
  double bad_node_hours_ = 0;
  std::optional<Step> step_at_start_;
  std::size_t starts_before_ = 0;  ///< number of earlier starts of ranks that trained
};

}  // namespace distdl::app
