// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace distdl::data {

/// Threads that do many small works side by side. Not thread-safe: one thread starts and finishes.
class Workers {
 public:
  /// `threads`: 1 or more, of which one is the thread that calls finish(). If the system refuses some, fewer work.
  explicit Workers(std::size_t threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// The most numbers of workers that a work may see.
  std::size_t count() const noexcept { return threads_.size() + 1; }
  /// Does work `item`. `worker` is a number below count(), and a worker does one work at a time.
  using Work = std::function<void(std::size_t item, std::size_t worker)>;
  /// Begins with the works 0 .. items - 1, and returns at once. finish() must follow.
  void start(std::size_t items, Work work);
  /// Takes part, and returns when all are done. If one throws, no new ones begin, and the first exception is rethrown.
  void finish();

 private:
  void run(std::size_t worker);
  void do_works(std::unique_lock<std::mutex>& lock, std::size_t worker);

  std::mutex mutex_;
  std::condition_variable changed_;
  Work work_;
  std::size_t items_ = 0, next_ = 0, busy_ = 0;
  std::exception_ptr error_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace distdl::data
