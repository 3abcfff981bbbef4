// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace distdl::parallel {

/// Sums buckets over the ranks, and does other work with the communicator, in a thread of its own, one job after the
/// other, while the caller computes. The thread sleeps while it waits for the network, unless the caller waits, too.
/// From release() until wait() has returned for the last released job, the communicator belongs to the thread.
class BucketSums {
 public:
  /// Does a job. Returns early if a stop is requested.
  using Job = std::function<void(std::size_t number, const std::stop_token& stop)>;
  explicit BucketSums(Job job);
  /// Gives up what is under way, within 10 ms.
  ~BucketSums();
  BucketSums(const BucketSums&) = delete;
  BucketSums& operator=(const BucketSums&) = delete;

  /// The first `count` jobs of this step may be done.
  void release(std::size_t count);
  /// Waits until so many jobs are done. Rethrows a job's exception.
  void wait(std::size_t count);
  /// Whether wait() would return, or throw, at once.
  bool is_done(std::size_t count);
  /// Ends a step, whose released jobs are done. Returns the seconds that they took.
  double restart();
  /// Set while wait() waits: then the thread has a processor for itself.
  const std::atomic<bool>& is_awaited() const { return is_awaited_; }

 private:
  void work(const std::stop_token& stop);

  Job job_;
  std::mutex mutex_;
  std::condition_variable_any released_now_;
  std::condition_variable done_now_;
  std::size_t released_ = 0, done_ = 0;
  double seconds_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> is_awaited_ = false;
  std::jthread thread_;  ///< the last member: ends first
};

}  // namespace distdl::parallel
