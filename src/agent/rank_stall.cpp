// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include <distdl/agent/rank_stall.hpp>
#include <distdl/base/log.hpp>

namespace distdl::agent {
namespace {
/// Of a rank that is about to be ended. A file system that hangs may hold the thread that looks: nobody waits for it
/// for longer than until `deadline`, for an agent that is silent counts as lost.
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

bool RankStall::look(const StartedRank& rank, Clock::time_point now, Clock::duration late, const Deadline& looking) {
  if (!text_.empty()) return false;
  for (const ThreadSeen& seen : rank.activity->look()) {
    StallWatch& watch = watches_[seen.place];
    const auto time = watch.look(seen, now, late);
    if (!time) continue;
    text_ = text_of_stall(seen, *time, watch.history());
    log(Severity::error, "rank {} {}: it is ended", rank.rank, text_);
    log_stacks(rank, looking);
    return true;
  }
  return false;
}

}  // namespace distdl::agent
