// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include <distdl/app/worker/signals.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/config/job.hpp>
#include <distdl/observe/health/failure_watch.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/train/host.hpp>
#include <distdl/train/setting.hpp>

namespace distdl::app {

/// Returns the setting of a rank by its job file, its environment and its Slurm job, as far as no other rank is asked.
/// Throws ConfigError for invalid values.
train::Setting make_setting(const config::Job& job);

/// The surroundings of a rank's process: the signals that it gets, and the measured peak of its kind of node.
class WorkerHost : public train::Host {
 public:
  /// The references must outlive this object.
  WorkerHost(WorkerSignals& signals, const comm::Communicator& communicator)
      : signals_(signals), communicator_(communicator) {}

  std::optional<std::string> stop_request() override;
  bool stop_is_pending() override { return signals_.stop.poll().has_value(); }
  bool was_suspended() override { return signals_.stop.was_suspended(); }
  /// Returns 0 if the figures cannot be read: they do not end a run, which does without them.
  double peak_flops(const std::string& backend) override;

 private:
  WorkerSignals& signals_;
  const comm::Communicator& communicator_;
};

/// The surroundings of rank 0. It looks into the run folder for all ranks: for the files STOP and SAVE, nodes that are
/// likely to fail, the end of the job that the supervisor passes on, and the losses that earlier starts have recorded.
/// If the job has no failure predictor, no node counts as likely to fail.
class FirstWorkerHost final : public WorkerHost {
 public:
  /// The references must outlive this object. Throws ConfigError or StorageError if there is no such failure predictor
  /// as the job names.
  FirstWorkerHost(WorkerSignals& signals, const comm::Communicator& communicator, const config::Job& job);

  std::optional<std::string> stop_request() override;
  bool save_requested() override;
  bool follows_end_of_job() override { return allocation_.has_value(); }
  std::optional<std::chrono::system_clock::time_point> end_of_job() override;
  std::optional<double> recorded_loss(Step step) override;

 private:
  std::filesystem::path run_folder_;
  std::optional<slurm::Allocation> allocation_;
  observe::FileRequests requests_;
  std::optional<observe::FailureWatch> failures_;
};

}  // namespace distdl::app
