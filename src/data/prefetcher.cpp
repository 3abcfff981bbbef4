// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/end_limit.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/data/prefetcher.hpp>

namespace distdl::data {

Prefetcher::Prefetcher(Source& source, Sampler sampler, std::int64_t batch, Next next, std::size_t depth, Mixing mixing)
    : source_(source),
      sampler_(sampler),
      size_(batch),
      next_(std::move(next)),
      depth_(depth),
      mixing_(std::move(mixing)),
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
  // A batch that is read ahead may take as long as at() would wait for it: neither the end of a run nor a lost peer is
  // a fault of the storage.
  const bool stops = stop_was_sent();
  const EndLimit limit(fmt::format("the reader of {}", source_.name()),
                       Milliseconds(hangs_  ? 3000
                                    : stops ? 10000
                                            : 600000),
                       hangs_.value_or(stops ? ExitCode::requeue : ExitCode::storage));
  thread_.join();
}

const Batch& Prefetcher::at(std::int64_t position, const Patience& patience) {
  std::unique_lock lock(mutex_);
  const bool in_order = ready_.empty() ? to_read_ == position : ready_.front().position == position;
  if (!in_order) {
    ready_.clear();
    to_read_ = position;
    ++round_;
  }
  changed_.notify_all();
  if (ready_.empty()) {
    const Stopwatch watch;
    const bool is_there = wait_for_batch(lock, patience);
    waited_ += watch.seconds();
    if (!is_there)
      throw StorageError(
          fmt::format("reading {} samples of {} takes longer than {:.3g} s{}; check its file system", size_,
                      source_.name(), watch.seconds(),
                      hangs_ == ExitCode::requeue ? ", although the run was asked to stop: the next start resumes from "
                                                    "the last checkpoint"
                                                  : ""),
          *hangs_);
  }
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

/// Returns false if it does not come in time: `hangs_` then says why.
bool Prefetcher::wait_for_batch(std::unique_lock<std::mutex>& lock, const Patience& patience) {
  constexpr Clock::duration kLook = Milliseconds(250), kLong = Milliseconds(5000);
  const ShownFile shown(source_.name());
  Clock::duration waited{}, left = patience.most;
  bool stops = false, is_told = false;
  for (;;) {
    const auto pause = std::min(left, kLook);
    if (changed_.wait_for(lock, pause, [this] { return !ready_.empty(); })) return true;
    waited += pause;  // not by the clock, which goes on while the process is suspended
    left -= pause;
    if (!stops && stop_was_sent()) {
      stops = true;
      left = std::min(left, patience.after_stop);
    }
    if (waited >= kLong && !std::exchange(is_told, true))
      log(Severity::warning, "waiting for {} samples of {}, so far for {} s", size_, source_.name(),
          std::chrono::duration_cast<std::chrono::seconds>(waited).count());
    if (left > Clock::duration::zero()) continue;
    hangs_ = stops ? ExitCode::requeue : ExitCode::storage;
    return false;
  }
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
      picks_.push_back({sampler_.epoch(at), source_.has_own_order() ? at % sampler_.samples() : sampler_.index(at)});
    const ShownFile shown(source_.name());
    source_.read(picks_, result.batch);
    mixing_(sampler_.epoch(position), position % sampler_.samples(), source_.shape(), result.batch);
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

}  // namespace distdl::data
