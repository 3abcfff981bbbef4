// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <distdl/base/log.hpp>
#include <distdl/train/stop/stop_decision.hpp>

namespace distdl::train {

std::optional<std::string> Stopping::reason(const NextStep& next) const {
  if (auto reason = host_.stop_request()) return reason;
  if (Clock::now() < doubted_) return std::nullopt;
  return end_of_job_.poll(std::chrono::system_clock::now(), next);
}

bool Stopping::is_due(bool is_busy) const {
  if (host_.stop_is_pending()) return true;
  return Clock::now() >= doubted_ && end_of_job_.must_save(std::chrono::system_clock::now(), is_busy);
}

void Stopping::look_for_suspension(bool is_busy) {
  constexpr std::chrono::seconds kUntilKnown{20};  // the supervisor asks Slurm at once
  const bool suspended = host_.was_suspended();
  // A save that was under way is measured later.
  end_of_job_.set_disturbed(suspended || (end_of_job_.is_disturbed() && is_busy));
  if (!suspended) return;
  log(Severity::info, "this rank was suspended, and goes on");
  if (!host_.follows_end_of_job()) return;
  doubted_ = Clock::now() + kUntilKnown;
  next_look_ = Clock::now();
}

void Stopping::follow_deadline(const NextStep& next) {
  constexpr std::chrono::seconds kPeriod{10}, kDoubted{1};
  if (Clock::now() >= next_look_ && host_.follows_end_of_job()) {
    const auto end = host_.end_of_job();
    if (end && end_of_job_.set_end(*end)) doubted_ = {};
    next_look_ = Clock::now() + (Clock::now() < doubted_ ? kDoubted : kPeriod);
  }
  auto deadline = end_of_job_.deadline(next);
  if (!deadline || !news_.is_news(*deadline, seconds_since_1970())) return;
  deadline->reason = explain(*deadline);
  observer_.on(*deadline);
  if (deadline->grace_is_enough == false && warns_)
    log(Severity::warning,
        "a preemption leaves {:.0f} s, but a step takes {:.3g} s and a save {:.3g} s: what was done since the last "
        "checkpoint may be lost then; a shorter checkpoint.every keeps that small",
        *deadline->grace_seconds, deadline->times.step, deadline->times.save);
}

}  // namespace distdl::train
