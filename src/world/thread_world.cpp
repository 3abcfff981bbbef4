// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/world/rank_names.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::world {
namespace {

/// Where the threads lay down what they give to each other.
class MeetingPoint {
 public:
  explicit MeetingPoint(int size) : given_(size), ended_(size) {}
  int size() const { return static_cast<int>(given_.size()); }

  std::vector<std::string> all_gather_strings(Rank rank, const std::string& mine, Milliseconds timeout) {
    std::unique_lock lock(mutex_);
    given_[rank.value] = mine;
    changed_.notify_all();
    const bool in_time =
        changed_.wait_for(lock, timeout, [this] { return missing().empty() || !ended_early().empty(); });
    if (auto ended = ended_early(); !ended.empty())
      throw CommError(fmt::format("{} ended before the rendezvous", name_ranks(ended)));
    if (!in_time)
      throw SchedulerError(
          fmt::format("{} did not arrive at the rendezvous within {} ms", name_ranks(missing()), timeout.count()));
    std::vector<std::string> all;
    for (const auto& one : given_) all.push_back(*one);
    return all;
  }

  void leave(Rank rank) {
    std::lock_guard lock(mutex_);
    ended_[rank.value] = true;
    changed_.notify_all();
  }

 private:
  std::vector<Rank> missing() const {
    std::vector<Rank> ranks;
    for (int r = 0; r < size(); ++r)
      if (!given_[r]) ranks.emplace_back(r);
    return ranks;
  }
  std::vector<Rank> ended_early() const {
    std::vector<Rank> ranks = missing();
    std::erase_if(ranks, [this](Rank r) { return !ended_[r.value]; });
    return ranks;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> given_;
  std::vector<bool> ended_;
};

class ThreadWorld : public World {
 public:
  ThreadWorld(MeetingPoint& meeting_point, Rank rank) : meeting_point_(meeting_point), rank_(rank) {}
  Rank rank() const override { return rank_; }
  int size() const override { return meeting_point_.size(); }
  std::string description() const override { return fmt::format("{} threads", size()); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    return meeting_point_.all_gather_strings(rank_, mine, timeout);
  }

 private:
  MeetingPoint& meeting_point_;
  Rank rank_;
};

bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CommError&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// `failures`: in the order of time.
void rethrow_cause(const std::vector<std::exception_ptr>& failures) {
  for (const auto& failure : failures)
    if (!is_consequence(failure)) std::rethrow_exception(failure);
  if (!failures.empty()) std::rethrow_exception(failures.front());
}

}  // namespace

void run_threads(int size, const std::function<void(World&)>& body) {
  require(size > 0, "a world has {} ranks, but needs at least one", size);
  MeetingPoint meeting_point(size);
  std::mutex mutex;
  std::vector<std::exception_ptr> failures;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, rank = Rank(r)] {
      set_log_rank(rank);
      try {
        ThreadWorld world(meeting_point, rank);
        body(world);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failures.push_back(std::current_exception());
      }
      meeting_point.leave(rank);
    });
  threads.clear();  // joins
  rethrow_cause(failures);
}

}  // namespace distdl::world
