// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/data/prefetcher.hpp>

namespace distdl::data {

Prefetcher::Prefetcher(Source& source, Sampler sampler, std::int64_t batch, Next next, std::size_t depth)
    : source_(source),
      sampler_(sampler),
      size_(batch),
      next_(std::move(next)),
      depth_(depth),
      thread_([this, recorder = recorder_of_this_thread()] {
        const RecordedThread recorded(recorder, "reader");
        run();
      }) {}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

const Batch& Prefetcher::at(std::int64_t position, Clock::duration patience) {
  Stopwatch watch;
  std::unique_lock lock(mutex_);
  const bool in_order = ready_.empty() ? to_read_ == position : ready_.front().position == position;
  if (!in_order) {
    ready_.clear();
    to_read_ = position;
    ++round_;
  }
  changed_.notify_all();
  const bool there = changed_.wait_for(lock, patience, [&] { return !ready_.empty(); });
  waited_ += watch.seconds();
  require<StorageError>(there, "reading {} samples of {} takes longer than {} s; check its file system", size_,
                        source_.name(), std::chrono::duration_cast<std::chrono::seconds>(patience).count());
  spare_.push_back(std::move(used_.batch));
  used_ = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  if (used_.error) {
    to_read_ = -1;
    std::rethrow_exception(used_.error);
  }
  return used_.batch;
}

void Prefetcher::read_from(std::int64_t position, Next next) {
  {
    std::lock_guard lock(mutex_);
    next_ = std::move(next);
    for (Read& read : ready_) spare_.push_back(std::move(read.batch));
    ready_.clear();
    to_read_ = position;
    ++round_;
  }
  changed_.notify_all();
}

void Prefetcher::run() {
  const ShownThread shown("reader");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || (to_read_ >= 0 && ready_.size() < depth_); });
    if (ends_) return;
    Batch memory;
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
    const std::int64_t position = to_read_;
    const std::uint64_t round = round_;
    lock.unlock();
    enter_phase(RankPhase::read);
    Read done = read(position, std::move(memory));
    enter_phase(RankPhase::idle);
    lock.lock();
    if (round != round_) {
      spare_.push_back(std::move(done.batch));
      continue;
    }
    to_read_ = done.error ? -1 : next_(position);
    ready_.push_back(std::move(done));
    changed_.notify_all();
  }
}

Prefetcher::Read Prefetcher::read(std::int64_t position, Batch memory) {
  Read result{position, std::move(memory), nullptr};
  try {
    picks_.clear();
    for (std::int64_t at = position; at < position + size_; ++at)
      picks_.push_back({sampler_.epoch(at), sampler_.index(at)});
    source_.read(picks_, result.batch);
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

}  // namespace distdl::data
