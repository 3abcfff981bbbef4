// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <distdl/base/spans.hpp>

namespace distdl {
namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;

std::atomic<void (*)(const char*)> push_range{nullptr};
std::atomic<void (*)()> pop_range{nullptr};
}  // namespace

constinit thread_local SpanTrack* span_track = nullptr;

const char* name_of(SpanKind kind) {
  static constexpr std::array<const char*, kSpanKinds> kNames{
      "step", "phase", "forward", "backward", "bucket", "copy", "collective wait", "message wait", "send", "receive"};
  return kNames.at(static_cast<std::size_t>(kind));
}

void SpanTrack::push(const Span& span) noexcept {
  const std::uint64_t at = written_.load(kRelaxed);
  if (at - read_.load(std::memory_order_acquire) == kCapacity) {
    lost_.store(lost_.load(kRelaxed) + 1, kRelaxed);
    return;
  }
  spans_[at % kCapacity] = span;
  written_.store(at + 1, std::memory_order_release);
}

bool SpanTrack::is_full_to_a_quarter() const noexcept {
  return written_.load(kRelaxed) - read_.load(kRelaxed) > kCapacity / 4;
}

void SpanTrack::end_phase(std::int64_t now) noexcept {
  if (phase_name_ == nullptr || phase_begin_ == 0) return;
  push({.begin = phase_begin_, .end = now, .name = phase_name_, .number = phase_, .kind = SpanKind::phase});
}

std::int64_t SpanTrack::enter(const char* name, std::uint32_t phase) noexcept {
  const bool on = is_on();
  if (phase_begin_ != 0 || on) {
    const std::int64_t now = span_clock();
    end_phase(now);
    phase_begin_ = on ? now : 0;
  }
  phase_name_ = name;
  phase_ = phase;
  return phase_begin_;
}

SpanTrack* SpanRecorder::add_track(const char* name) {
  const std::lock_guard lock(mutex_);
  if (tracks_.size() == kMostTracks) return nullptr;
  return tracks_.emplace_back(std::make_unique<SpanTrack>(*this, name)).get();
}

bool SpanRecorder::any_is_full_to_a_quarter() {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(tracks_, [](const auto& track) { return track->is_full_to_a_quarter(); });
}

std::vector<SpanTrack*> SpanRecorder::tracks() {
  const std::lock_guard lock(mutex_);
  std::vector<SpanTrack*> all;
  all.reserve(tracks_.size());
  for (const auto& track : tracks_) all.push_back(track.get());
  return all;
}

std::shared_ptr<SpanRecorder> recorder_of_this_thread() {
  return span_track != nullptr ? span_track->recorder().shared_from_this() : nullptr;
}

RecordedThread::RecordedThread(std::shared_ptr<SpanRecorder> recorder, const char* name)
    : recorder_(std::move(recorder)), before_(span_track) {
  if (recorder_) span_track = recorder_->add_track(name);
}

RecordedThread::~RecordedThread() {
  if (recorder_) span_track = before_;
}

void set_span_ranges(const SpanRanges& ranges) noexcept {
  pop_range.store(ranges.pop, kRelaxed);
  push_range.store(ranges.push, kRelaxed);
}

void TimedSpan::begin(const Span& span) noexcept {
  track_ = span_track;
  span_ = span;
  if (auto* const push = push_range.load(kRelaxed)) push(span.name);
  span_.begin = span_clock();
}

void TimedSpan::end() noexcept {
  span_.end = span_clock();
  track_->push(span_);
  if (auto* const pop = pop_range.load(kRelaxed)) pop();
}

}  // namespace distdl
