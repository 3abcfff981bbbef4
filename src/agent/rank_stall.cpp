// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <distdl/agent/rank_stall.hpp>
#include <distdl/base/log.hpp>

namespace distdl::agent {
namespace {
/// Logs the stacks of a rank that is about to be ended. A file system that hangs may hold the thread that looks: nobody
/// waits for it for longer than until `deadline`, for an agent that is silent counts as lost.
void log_stacks(const StartedRank& rank, const Deadline& deadline) try {
  std::promise<void> looked;
  const auto is_over = looked.get_future();
  std::thread([rank, looked = std::move(looked)]() mutable {
    constexpr Milliseconds kPatience{100};
    try {
      for (const ThreadReport& thread : look_at(rank, kPatience).threads)
        for (std::size_t i = 0; i < thread.stack.size(); ++i)
          log(Severity::error, "rank {}, thread \"{}\" in {}: #{} {}", rank.rank, thread.name, thread.phase, i,
              thread.stack[i]);
    } catch (const std::exception& error) {
      log(Severity::debug, "no stack of rank {}: {}", rank.rank, error.what());
    }
    looked.set_value();
  }).detach();
  is_over.wait_for(deadline.remaining());
} catch (const std::system_error& error) {
  log(Severity::debug, "no stack of rank {}: {}", rank.rank, error.what());
}
}  // namespace

/// The state "T" is certain: no load of the machine brings it about. Who is suspended together with the rank, as by
/// "scontrol suspend", sees that it is late itself. A debugger stops a process by the state "t".
bool RankStall::look_at_process(const StartedRank& rank, Clock::time_point now, Clock::duration late) {
  const std::string state = state_of_process(rank.process, rank.process);
  held_ = state == "t" && looked_at_ ? std::max<Clock::duration>(now - *looked_at_ - late, {}) : Clock::duration{};
  looked_at_ = now;
  if (state != "T" || limits_.stopped <= Milliseconds(0)) {
    stopped_.reset();
    return false;
  }
  stopped_ = stopped_ ? *stopped_ + late : now;
  if (now - *stopped_ < limits_.stopped) return false;
  is_frozen_ = true;
  text_ = fmt::format("was frozen: a signal has stopped its process {} for {:.1f} s", rank.process,
                      std::chrono::duration<double>(now - *stopped_).count());
  log(Severity::error, "rank {} {}: it is ended", rank.rank, text_);
  return true;
}

void RankStall::stop(Clock::time_point now) {
  for (StallWatch& watch : watches_) watch.stop(now);
}

void RankStall::tell(const StartedRank& rank, const ThreadSeen& seen, Clock::time_point now) {
  StallWatch& watch = watches_[seen.place];
  if (watch.is_news(seen, now))
    log(Severity::warning, "rank {} {}", rank.rank, text_of_stall(seen, now - watch.since(), watch.history()));
}

bool RankStall::look(const StartedRank& rank, Clock::time_point now, Clock::duration late, const Deadline& looking) {
  if (!text_.empty()) return false;
  if (look_at_process(rank, now, late)) return true;
  for (const ThreadSeen& seen : rank.activity->look()) {
    StallWatch& watch = watches_[seen.place];
    const auto time = watch.look(seen, now, late + held_);
    if (!stopped_) tell(rank, seen, now);
    if (!time) continue;
    text_ = text_of_stall(seen, *time, watch.history());
    log(Severity::error, "rank {} {}: it is ended", rank.rank, text_);
    log_stacks(rank, looking);
    return true;
  }
  return false;
}

}  // namespace distdl::agent
