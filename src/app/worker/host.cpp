// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/worker/host.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::app {

train::Setting make_setting(const config::Job& job) {
  train::Setting setting;
  setting.checkpoints = std::filesystem::path(job.run_dir) / "checkpoints";
  const auto allocation = slurm::allocation_by_variables();
  setting.owner = {allocation ? allocation->job : "local", allocation ? allocation->restart : 0, job.comm.generation,
                   ""};
  setting.owner.launch = env("DISTDL_LAUNCH").value_or("");
  setting.node = slurm::name_of_node();
  setting.devices_per_rank = job.devices_per_rank;
  setting.hooks.bit_flip = train::bit_flip_from(env("DISTDL_FLIP_BIT"));
  if (setting.hooks.bit_flip) log(Severity::warning, "DISTDL_FLIP_BIT: a bit will be flipped on purpose");
  if (const auto steps = train::traced_steps_or_off(job.observe.trace, "log.trace"))
    setting.trace = train::TraceSetting{resolved(job.run_dir) / "trace", *steps};
  setting.limits = slurm::limits_from(&env);
  if (!setting.limits.end) setting.limits.end = slurm::end_of_job_by_variable();
  return setting;
}

std::optional<std::string> WorkerHost::stop_request() {
  signals_.watch.end();
  ++signals_.looks;
  return signals_.stop.poll();
}

double WorkerHost::peak_flops(const std::string& backend) try {
  const auto ranks = communicator_.ranks_on_host_of(communicator_.rank()).size();
  return forecast::known_peak(backend, static_cast<int>(ranks));
} catch (const ConfigError& error) {
  log(communicator_.rank() == Rank(0) ? Severity::warning : Severity::debug, "{}; until then there is no MFU",
      error.what());
  return 0;
}

FirstWorkerHost::FirstWorkerHost(WorkerSignals& signals, const comm::Communicator& communicator, const config::Job& job)
    : WorkerHost(signals, communicator),
      run_folder_(job.run_dir),
      allocation_(slurm::allocation_by_variables()),
      requests_(job.run_dir) {
  if (job.agent.failure_predictor.empty()) return;
  failures_.emplace(job.run_dir, observe::read_predictor(job.agent.failure_predictor));
  failures_->start();
}

std::optional<std::string> FirstWorkerHost::stop_request() {
  const auto by_signal = WorkerHost::stop_request();
  return by_signal ? by_signal : requests_.stop();
}

bool FirstWorkerHost::save_requested() {
  return requests_.save() || (failures_ && failures_->wants_save());
}

std::optional<std::chrono::system_clock::time_point> FirstWorkerHost::end_of_job() {
  return launch::read_end(run_folder_, *allocation_);
}

std::optional<double> FirstWorkerHost::recorded_loss(Step step) {
  return observe::read_loss_after(run_folder_, step);
}

}  // namespace distdl::app
