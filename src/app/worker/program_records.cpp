// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <fmt/format.h>

#include <distdl/app/worker/program_records.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/result.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::app {
namespace {
slurm::JobLimits limits_of_this_job() {
  auto limits = slurm::limits_from(&env);
  if (!limits.end) limits.end = slurm::end_of_job_by_variable();
  return limits;
}

/// The step whose state the program has told as saved last.
std::optional<Step> last_saved(const std::filesystem::path& run_folder) {
  std::optional<Step> last;
  for (const auto& row : observe::read_journal(run_folder))
    if (const auto* saved = row.as<records::CheckpointSaved>(); saved && saved->step) last = saved->step;
  return last;
}

/// Metrics that rows of steps have a field for, by the names that programs give them.
std::optional<double> records::StepDone::*field_of(const std::string& name) {
  if (name == "loss" || name == "train_loss") return &records::StepDone::loss;
  if (name == "accuracy" || name == "acc") return &records::StepDone::accuracy;
  if (name == "learning_rate" || name == "lr") return &records::StepDone::learning_rate;
  if (name == "samples_per_s") return &records::StepDone::samples_per_s;
  if (name == "gradient_norm" || name == "grad_norm") return &records::StepDone::gradient_norm;
  return nullptr;
}

std::optional<double> records::Evaluated::*field_of_evaluation(const std::string& name) {
  for (const std::string_view prefix : {"validation_", "val_", "eval_"}) {
    if (!name.starts_with(prefix)) continue;
    const auto rest = std::string_view(name).substr(prefix.size());
    if (rest == "loss") return &records::Evaluated::loss;
    if (rest == "accuracy" || rest == "acc") return &records::Evaluated::accuracy;
  }
  return nullptr;
}
}  // namespace

bool is_of_evaluation(const std::string& name) {
  return field_of_evaluation(name) != nullptr;
}

ProgramRecords::ProgramRecords(const config::Job& job, int ranks, std::int64_t start, agent::Beats* beats)
    : folder_(job.run_dir, slurm::allocation_by_variables() ? slurm::allocation_by_variables()->restart : 0,
              job.observe),
      beats_(beats),
      requests_(job.run_dir),
      run_folder_(job.run_dir),
      allocation_(slurm::allocation_by_variables()),
      end_(limits_of_this_job().end),
      rule_(limits_of_this_job(), job.recipe.train.stop_margin_seconds, observe::read_measured_times(job.run_dir)),
      end_at_step_(job.recipe.train.end_at_step) {
  records::Started started;
  started.resumed_from = last_saved(run_folder_);
  started.world_size = ranks;
  started.backend = job.program.command.front();
  if (started.resumed_from) started.resumed_source = "what the program has saved";
  started.start = static_cast<std::uint64_t>(start);
  step_ = started.resumed_from.value_or(Step(0)).value;
  if (beats_) beats_->step_done(Step(step_));
  folder_.on(started);
  tell_deadline();
}

void ProgramRecords::progress(std::int64_t step, std::optional<std::int64_t> steps,
                              std::span<const program::NamedValue> metrics) {
  const auto now = Clock::now();
  if (steps) steps_ = steps;
  if (step != step_ && has_progress_)
    rule_.step_took(std::chrono::duration<double>(now - last_step_).count() /
                    static_cast<double>(std::max<std::int64_t>(1, step - step_)));
  last_step_ = now;
  has_progress_ = true;
  step_ = step;
  record({.step = Step(step)}, metrics);
  evaluated(metrics);
  if (beats_) beats_->step_done(Step(step));
}

void ProgramRecords::record(records::StepDone done, std::span<const program::NamedValue> metrics) {
  for (const auto& [name, value] : metrics) {
    if (is_of_evaluation(name)) continue;
    if (const auto field = field_of(name)) {
      done.*field = value;
    } else {
      done.names.push_back(name);
      done.values.push_back(value);
    }
  }
  if (done.loss) loss_ = done.loss;
  if (done.accuracy) accuracy_ = done.accuracy;
  folder_.on(done);
}

void ProgramRecords::evaluated(std::span<const program::NamedValue> metrics) {
  records::Evaluated evaluated{.step = Step(step_)};
  for (const auto& [name, value] : metrics)
    if (const auto field = field_of_evaluation(name)) evaluated.*field = value;
  if (evaluated.loss || evaluated.accuracy) folder_.on(evaluated);
}

void ProgramRecords::last(std::span<const program::NamedValue> metrics) {
  if (!metrics.empty()) record({.step = Step(step_)}, metrics);
}

void ProgramRecords::saved(std::int64_t step, std::optional<double> seconds) {
  constexpr double kMostSeconds = 1e6;
  saved_ = step;
  if (seconds && !(*seconds >= 0 && *seconds <= kMostSeconds)) seconds.reset();
  if (seconds) rule_.save_took(*seconds);
  folder_.on(records::CheckpointSaved{.step = Step(step), .seconds = seconds.value_or(0)});
}

std::optional<std::string> ProgramRecords::stop_request() {
  if (auto asked = requests_.stop()) return asked;
  if (is_part_done()) return fmt::format("train.end_at_step = {}", end_at_step_);
  const auto now = Clock::now();
  if (now >= next_look_) {
    constexpr auto kEvery = std::chrono::seconds(1);
    next_look_ = now + kEvery;
    if (const auto end = allocation_ ? launch::read_end(run_folder_, *allocation_) : std::nullopt) {
      end_ = end;
      rule_.set_end(*end);
    }
    tell_deadline();
  }
  return rule_.poll(std::chrono::system_clock::now());
}

void ProgramRecords::tell_deadline() {
  auto deadline = rule_.deadline();
  if (!deadline || !news_.is_news(*deadline, seconds_since_1970())) return;
  deadline->reason = train::explain(*deadline);
  folder_.on(*deadline);
}

void ProgramRecords::stop_took(double seconds) {
  rule_.save_took(seconds);
  auto deadline = rule_.deadline();
  if (!deadline) return;
  deadline->reason = train::explain(*deadline);
  folder_.on(*deadline);
}

void ProgramRecords::stopped(const std::string& reason) {
  folder_.on(records::Stopped{.step = Step(step_), .reason = reason});
}

void ProgramRecords::finished(const std::string& early) {
  const auto last = observe::collect_result(run_folder_);
  const bool is_evaluated = last.loss || last.accuracy;
  folder_.on(records::Finished{.step = Step(step_),
                               .loss = is_evaluated ? last.loss : loss_,
                               .accuracy = is_evaluated ? last.accuracy : accuracy_,
                               .early = early});
}

}  // namespace distdl::app
