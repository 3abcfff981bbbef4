// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/agent/stall_watch.hpp>

namespace distdl::agent {
namespace {
bool writes_files(RankPhase phase) {
  switch (phase) {
    case RankPhase::save:
    case RankPhase::snapshot:
    case RankPhase::copy:
    case RankPhase::last_save:
    case RankPhase::protect:
    case RankPhase::write:
      return true;
    default:
      return false;
  }
}

double seconds(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}
}  // namespace

void PhaseHistory::took(RankPhase phase, Clock::duration time) {
  auto& longest = longest_[static_cast<std::size_t>(phase)];
  longest = std::max(longest, time);
}

std::optional<Clock::duration> PhaseHistory::limit(RankPhase phase, std::uint32_t completed,
                                                   const StallLimits& limits) const {
  if (limits.least <= Milliseconds(0) || phase == RankPhase::idle) return std::nullopt;
  std::optional<Clock::duration> most;
  if (limits.most > Milliseconds(0)) most = limits.most;
  if (completed < kEnough) return most;
  const Clock::duration least = writes_files(phase) ? std::max(limits.least, limits.least_of_saves) : limits.least;
  const Clock::duration learnt = std::max(kTimes * longest(phase), least);
  return most ? std::min(learnt, *most) : learnt;
}

std::optional<Clock::duration> StallWatch::look(const ThreadSeen& seen, Clock::time_point now, Clock::duration late) {
  since_ += late;
  const bool same = seen.thread == thread_ && seen.entered == entered_;
  // What changed between two looks took less than the time between them.
  if (!same && seen.thread == thread_) history_.took(phase_, now - since_);
  const bool waits = seen.wait && seen.wait->rank;
  if (!same || waits) {
    thread_ = seen.thread;
    entered_ = seen.entered;
    phase_ = seen.phase;
    since_ = now;
    return std::nullopt;
  }
  const auto limit = history_.limit(phase_, seen.count > 0 ? seen.count - 1 : 0, limits_);
  const auto time = now - since_;
  return limit && time > *limit ? std::optional(time) : std::nullopt;
}

std::string text_of_stall(const ThreadSeen& seen, Clock::duration time, const PhaseHistory& history) {
  std::string text = fmt::format("made no progress for {:.1f} s in {}", seconds(time), name_of(seen.phase));
  if (seen.step) text += fmt::format(" at step {}", seen.step->value);
  if (const auto longest = history.longest(seen.phase); longest > Clock::duration::zero())
    text += fmt::format("; the longest before took {:.2g} s", seconds(longest));
  return text;
}

}  // namespace distdl::agent
