// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/parallel/bucket_sums.hpp>

namespace distdl::parallel {
namespace {
constexpr const char* kThread = "sum";
}  // namespace

BucketSums::BucketSums(Job job)
    : job_(std::move(job)), thread_([this, recorder = recorder_of_this_thread()](const std::stop_token& stop) {
        const RecordedThread recorded(recorder, kThread);
        work(stop);
      }) {}

BucketSums::~BucketSums() = default;

void BucketSums::release(std::size_t count) {
  {
    const std::lock_guard lock(mutex_);
    released_ = std::max(released_, count);
  }
  released_now_.notify_one();
}

void BucketSums::wait(std::size_t count) {
  constexpr Milliseconds kLook{5};  // this thread waits for the rank for which the other one waits: shows it again
  std::unique_lock lock(mutex_);
  is_awaited_ = true;
  while (!done_now_.wait_for(lock, kLook, [&] { return done_ >= count || error_; })) show_wait_of(kThread);
  is_awaited_ = false;
  end_wait();
  if (error_) std::rethrow_exception(error_);
}

bool BucketSums::is_done(std::size_t count) {
  const std::lock_guard lock(mutex_);
  return done_ >= count || error_;
}

double BucketSums::restart() {
  const std::lock_guard lock(mutex_);
  released_ = done_ = 0;
  return std::exchange(seconds_, 0);
}

void BucketSums::work(const std::stop_token& stop) {
  const ShownThread shown(kThread);
  std::unique_lock lock(mutex_);
  while (released_now_.wait(lock, stop, [this] { return done_ < released_ && !error_; })) {
    const std::size_t number = done_;
    lock.unlock();
    std::exception_ptr error;
    const Stopwatch watch;
    enter_phase(RankPhase::reduce);
    try {
      const TimedSpan span(SpanKind::bucket, "bucket", static_cast<std::uint32_t>(number));
      job_(number, stop);
    } catch (...) {
      error = std::current_exception();
    }
    enter_phase(RankPhase::idle);
    const double seconds = watch.seconds();
    lock.lock();
    if (stop.stop_requested()) return;
    seconds_ += seconds;
    error_ = error;
    if (!error) ++done_;
    done_now_.notify_one();
  }
}

}  // namespace distdl::parallel
