// SPDX-License-Identifier: Apache-2.0
#include <system_error>
#include <utility>

#include <distdl/data/codecs/workers.hpp>

namespace distdl::data {

Workers::Workers(std::size_t threads) {
  try {
    while (threads_.size() + 1 < threads) threads_.emplace_back([this, worker = threads_.size() + 1] { run(worker); });
  } catch (const std::system_error&) {  // no more threads to be had: those that there are do it
  }
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    next_ = items_;
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::start(std::size_t items, Work work) {
  {
    std::lock_guard lock(mutex_);
    work_ = std::move(work);
    items_ = items;
    next_ = 0;
  }
  changed_.notify_all();
}

void Workers::finish() {
  std::unique_lock lock(mutex_);
  do_works(lock, 0);
  changed_.wait(lock, [this] { return busy_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Workers::run(std::size_t worker) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || next_ < items_; });
    if (ends_) return;
    do_works(lock, worker);
    changed_.notify_all();
  }
}

void Workers::do_works(std::unique_lock<std::mutex>& lock, std::size_t worker) {
  while (next_ < items_) {
    const std::size_t item = next_++;
    ++busy_;
    lock.unlock();
    std::exception_ptr error;
    try {
      work_(item, worker);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    if (!error) continue;
    next_ = items_;
    if (!error_) error_ = error;
  }
}

}  // namespace distdl::data
