// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/format.h>

#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {
namespace {
double seconds_of(EndOfJob::Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}
}  // namespace

double seconds_to_save(const records::MeasuredTimes& times, bool waits_for_save, double margin) {
  return (waits_for_save ? std::max(times.save, times.snapshot) : 0) + times.save * 1.5 + margin;
}

double seconds_needed(const records::MeasuredTimes& times, const NextStep& next, double margin) {
  return times.step * 2 + (next.evaluates ? times.evaluation * 1.5 : 0) +
         seconds_to_save(times, next.waits_for_save, margin);
}

bool is_enough(std::chrono::seconds grace, const records::MeasuredTimes& times) {
  return static_cast<double>(grace.count()) >= times.step + std::max(times.save, times.snapshot) + times.save;
}

EndOfJob::EndOfJob(const slurm::JobLimits& limits, double margin_seconds, const records::MeasuredTimes& before)
    : limits_(limits), margin_(margin_seconds) {
  steps_.add(before.step);
  evaluations_.add(before.evaluation);
  saves_.add(before.save);
  snapshots_.add(before.snapshot);
}

records::MeasuredTimes EndOfJob::times() const {
  const double step = steps_.value(), evaluation = evaluations_.value();
  return {step, evaluation > 0 ? evaluation : step * steps_per_evaluation_, saves_.value(), snapshots_.value()};
}

std::optional<std::string> EndOfJob::poll(Time now, const NextStep& next) const {
  if (!limits_.end) return std::nullopt;
  const double left = std::chrono::duration<double>(*limits_.end - now).count();
  if (left > seconds_needed(times(), next, margin_)) return std::nullopt;
  return fmt::format("end of the job in {:.0f} s", left);
}

bool EndOfJob::must_save(Time now, bool waits_for_save) const {
  return limits_.end &&
         std::chrono::duration<double>(*limits_.end - now).count() <= seconds_to_save(times(), waits_for_save, margin_);
}

std::optional<records::DeadlineKnown> EndOfJob::deadline(const NextStep& next) const {
  if (!limits_.end && !limits_.grace) return std::nullopt;
  records::DeadlineKnown known;
  known.times = times();
  known.margin = margin_;
  known.needed = seconds_needed(known.times, next, margin_);
  if (limits_.end) {
    known.end = seconds_of(*limits_.end);
    known.last_safe = *known.end - known.needed;
    if (limits_.warning) known.warning = *known.end - static_cast<double>(limits_.warning->count());
  }
  if (limits_.preemption != slurm::PreemptMode::unknown) known.preemption = slurm::name_of(limits_.preemption);
  if (limits_.grace) {
    known.grace_seconds = static_cast<double>(limits_.grace->count());
    known.grace_is_enough = is_enough(*limits_.grace, known.times);
  }
  return known;
}

std::string explain(const records::DeadlineKnown& deadline) {
  std::string text = "the job has no end that is known";
  if (deadline.end)
    text = fmt::format(
        "stops {:.0f} s before the end of the job: two steps of {:.3g} s, a save of {:.3g} s and half as long again, "
        "{:.3g} s for an evaluation or save that comes before, {:.3g} s of margin",
        deadline.needed, deadline.times.step, deadline.times.save,
        deadline.needed - deadline.times.step * 2 - deadline.times.save * 1.5 - deadline.margin, deadline.margin);
  if (deadline.preemption == "OFF") text += "; the job is not preempted";
  if (deadline.preemption == "SUSPEND") text += "; a preemption suspends the job";
  if (deadline.grace_is_enough)
    text += fmt::format("; a preemption leaves {:.0f} s, which is {}", *deadline.grace_seconds,
                        *deadline.grace_is_enough ? "enough" : "too little for a step and a save");
  return text;
}

bool DeadlineNews::is_news(const records::DeadlineKnown& deadline, double now) {
  constexpr double kPeriod = 30, kSmallestMove = 1;
  const auto has_moved = [](const std::optional<double>& one, const std::optional<double>& other) {
    return one.has_value() != other.has_value() || (one && std::abs(*one - *other) > kSmallestMove);
  };
  const bool is_news = !told_ || has_moved(told_->end, deadline.end) ||
                       (now - told_at_ >= kPeriod && (has_moved(told_->last_safe, deadline.last_safe) ||
                                                      told_->grace_is_enough != deadline.grace_is_enough));
  if (!is_news) return false;
  told_ = deadline;
  told_at_ = now;
  return true;
}

}  // namespace distdl::train
