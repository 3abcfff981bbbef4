// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace distdl::parallel {

/// Sums buckets over the ranks in a thread of its own, one after the other, while the caller computes. The thread
/// sleeps while it waits for the network. From release() until wait() has returned for the last released bucket, the
/// communicator belongs to the thread.
class BucketSums {
 public:
  /// Sums a bucket. Returns early if a stop is requested.
  using Sum = std::function<void(std::size_t bucket, const std::stop_token& stop)>;
  explicit BucketSums(Sum sum);
  /// Gives up what is under way, within 10 ms.
  ~BucketSums();
  BucketSums(const BucketSums&) = delete;
  BucketSums& operator=(const BucketSums&) = delete;

  /// The first `count` buckets of this step may be summed.
  void release(std::size_t count);
  /// Waits until so many buckets are summed. Rethrows what the sum of one has thrown.
  void wait(std::size_t count);
  /// Ends a step, whose released buckets are summed. Returns the seconds that their sums took.
  double restart();

 private:
  void work(const std::stop_token& stop);

  Sum sum_;
  std::mutex mutex_;
  std::condition_variable_any released_now_;
  std::condition_variable summed_now_;
  std::size_t released_ = 0, summed_ = 0;
  double seconds_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;  ///< the last member: ends first
};

}  // namespace distdl::parallel
