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

bool reads_samples(RankPhase phase) {
  return phase == RankPhase::data || phase == RankPhase::read;
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
  if (completed < kEnough && !reads_samples(phase)) return most;
  const Clock::duration least = writes_files(phase) ? std::max(limits.least, limits.least_of_saves) : limits.least;
  const Clock::duration learnt = std::max(kTimes * longest(phase), least);
  return most ? std::min(learnt, *most) : learnt;
}

std::optional<Clock::duration> StallWatch::look(const ThreadSeen& seen, Clock::time_point now, Clock::duration late) {
  since_ += late;
  if (stopped_) *stopped_ += late;
  const bool same = seen.thread == thread_ && seen.entered == entered_;
  // A phase that changed between two looks took less than the time between them.
  if (!same && seen.thread == thread_) history_.took(phase_, now - since_);
  const bool waits = seen.wait && seen.wait->rank;
  if (!same || waits) {
    thread_ = seen.thread;
    entered_ = seen.entered;
    phase_ = seen.phase;
    since_ = now;
    return std::nullopt;
  }
  const auto completed = seen.count > 0 ? seen.count - 1 : 0;
  const auto limit = history_.limit(phase_, completed, limits_);
  const auto time = now - since_;
  if (limit && time > *limit) return time;
  if (!stopped_) return std::nullopt;
  StallLimits stopping = limits_;
  stopping.least = std::min(limits_.least, limits_.after_stop);
  const auto last = history_.limit(phase_, completed, stopping);
  return last && now - std::max(since_, *stopped_) > *last ? std::optional(time) : std::nullopt;
}

void StallWatch::stop(Clock::time_point now) {
  if (!stopped_ && limits_.after_stop > Milliseconds(0)) stopped_ = now;
}

bool StallWatch::is_news(const ThreadSeen& seen, Clock::time_point now) {
  constexpr std::chrono::seconds kLong{5};
  constexpr int kTimesToTell = 5;
  const bool waits = seen.wait && seen.wait->rank;
  if (waits || phase_ == RankPhase::idle || told_ == entered_ || writes_files(phase_)) return false;
  const bool is_known = seen.count > PhaseHistory::kEnough || !seen.file.empty();
  if (!is_known || now - since_ <= std::max<Clock::duration>(kLong, kTimesToTell * history_.longest(phase_)))
    return false;
  told_ = entered_;
  return true;
}

std::string text_of_stall(const ThreadSeen& seen, Clock::duration time, const PhaseHistory& history) {
  std::string text = fmt::format("made no progress for {:.1f} s in {}", seconds(time), name_of(seen.phase));
  if (seen.step) text += fmt::format(" at step {}", seen.step->value);
  if (!seen.file.empty()) text += fmt::format(", reading {}", seen.file);
  if (const auto longest = history.longest(seen.phase); longest > Clock::duration::zero())
    text += fmt::format("; the longest before took {:.2g} s", seconds(longest));
  return text;
}

}  // namespace distdl::agent
