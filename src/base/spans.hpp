// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <distdl/base/clock.hpp>

// Spans of time in which the threads of a rank do something. A thread whose rank is not traced pays for one load and
// one branch; one that is traced reads the clock twice per span and allocates nothing. Ranks that are threads of one
// process have a recorder each.
namespace distdl {

enum class SpanKind : std::uint16_t {
  step,             ///< a training step, by its number
  phase,            ///< RankPhase, by its number
  forward,          ///< the forward pass of a layer, by the layer's number in the model
  backward,         ///< the backward pass of a layer, likewise
  bucket,           ///< the sum of a bucket over the ranks, or later work on it in the same thread, by its number
  copy,             ///< the copy of the state to a snapshot
  collective_wait,  ///< the wait for a collective, by its number in its group
  message_wait,     ///< the wait for a message, by its tag
  send,             ///< from the beginning of a message to its end; may overlap others
  receive,          ///< likewise
};
inline constexpr std::size_t kSpanKinds = 10;
const char* name_of(SpanKind kind);
/// True if spans of this kind lie within each other on their thread, or apart; false if they may overlap.
constexpr bool nests(SpanKind kind) {
  return kind != SpanKind::send && kind != SpanKind::receive;
}

struct Span {
  std::int64_t begin = 0, end = 0;  ///< nanoseconds, see span_clock()
  const char* name = "";            ///< static
  std::uint64_t bytes = 0;
  std::uint32_t number = 0;  ///< see SpanKind
  std::int32_t peer = -1;    ///< the other rank of a message; of a collective, the first rank of its group; -1: none
  SpanKind kind = SpanKind::step;
  std::uint16_t group = 0;  ///< communicator of a message or collective
};

/// Nanoseconds of Clock.
inline std::int64_t span_clock() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

class SpanRecorder;

/// The spans of one thread: it writes, and the thread that drains the recorder reads.
class SpanTrack {
 public:
  static constexpr std::size_t kCapacity = 1 << 16;

  SpanTrack(SpanRecorder& recorder, const char* name) : recorder_(recorder), name_(name), spans_(kCapacity) {}
  const char* name() const { return name_; }
  SpanRecorder& recorder() const { return recorder_; }
  bool is_on() const noexcept;
  /// Records a span. If the track is full, the span is lost and counted in lost().
  void push(const Span& span) noexcept;
  /// The thread begins a phase. A phase without a name is none. Returns this moment; 0: the recorder is off.
  std::int64_t enter(const char* name, std::uint32_t phase) noexcept;
  /// Ends the span of the present phase and begins another of the same phase, so that none crosses this moment. Returns
  /// this moment; 0: the recorder is off.
  std::int64_t split_phase() noexcept { return enter(phase_name_, phase_); }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  bool is_full_to_a_quarter() const noexcept;
  /// Calls take() with each span recorded since the last drain(), in the order of their ends.
  template <class Take>
  void drain(Take&& take) {
    const std::uint64_t end = written_.load(std::memory_order_acquire);
    for (std::uint64_t at = read_.load(std::memory_order_relaxed); at != end; ++at) take(spans_[at % kCapacity]);
    read_.store(end, std::memory_order_release);
  }

 private:
  void end_phase(std::int64_t now) noexcept;

  SpanRecorder& recorder_;
  const char* name_;
  std::vector<Span> spans_;
  std::atomic<std::uint64_t> written_{0}, read_{0}, lost_{0};
  // Members that only the recording thread uses:
  const char* phase_name_ = nullptr;
  std::uint32_t phase_ = 0;
  std::int64_t phase_begin_ = 0;  ///< nanoseconds; 0: the phase began while the recorder was off
};

/// The tracks of one rank.
class SpanRecorder : public std::enable_shared_from_this<SpanRecorder> {
 public:
  static constexpr std::size_t kMostTracks = 16;

  bool is_on() const noexcept { return on_.load(std::memory_order_relaxed); }
  void set_on(bool on) noexcept { on_.store(on, std::memory_order_relaxed); }
  /// Adds a track and returns it; null if there are kMostTracks already. `name`: static.
  SpanTrack* add_track(const char* name);
  /// True if a track should be drained soon.
  bool any_is_full_to_a_quarter();
  /// The tracks, in the order in which they were added.
  std::vector<SpanTrack*> tracks();

 private:
  std::atomic<bool> on_{false};
  std::mutex mutex_;
  std::vector<std::unique_ptr<SpanTrack>> tracks_;
};

/// Track of the calling thread; null: the thread is not traced.
extern constinit thread_local SpanTrack* span_track;

/// The recorder of the calling thread, for threads that it starts; null: the thread is not traced.
std::shared_ptr<SpanRecorder> recorder_of_this_thread();

/// While the object lives, spans of the calling thread go to a new track of the recorder with this name. Does nothing
/// if the recorder is null.
class RecordedThread {
 public:
  RecordedThread(std::shared_ptr<SpanRecorder> recorder, const char* name);
  ~RecordedThread();
  RecordedThread(const RecordedThread&) = delete;
  RecordedThread& operator=(const RecordedThread&) = delete;

 private:
  std::shared_ptr<SpanRecorder> recorder_;
  SpanTrack* before_;
};

/// Ranges on the timeline of another tool, such as NVTX, that are opened and closed with the spans below.
struct SpanRanges {
  void (*push)(const char* name) = nullptr;
  void (*pop)() = nullptr;
};
/// Set it once, before a recorder is on. Both functions must not throw.
void set_span_ranges(const SpanRanges& ranges) noexcept;

/// A span from its construction to its destruction. `name`: static.
class TimedSpan {
 public:
  TimedSpan(SpanKind kind, const char* name, std::uint32_t number = 0, std::uint64_t bytes = 0) noexcept {
    if (span_track != nullptr && span_track->is_on()) [[unlikely]]
      begin({.name = name, .bytes = bytes, .number = number, .kind = kind});
  }
  ~TimedSpan() {
    if (track_ != nullptr) [[unlikely]]
      end();
  }
  TimedSpan(const TimedSpan&) = delete;
  TimedSpan& operator=(const TimedSpan&) = delete;
  /// See Span.
  void set_peer(std::int32_t peer, std::uint16_t group) noexcept { span_.peer = peer, span_.group = group; }
  bool is_recorded() const noexcept { return track_ != nullptr; }

 private:
  void begin(const Span& span) noexcept;
  void end() noexcept;

  SpanTrack* track_ = nullptr;
  Span span_;
};

/// The present moment, as begin of a span that ends elsewhere in the same thread; 0: the thread is not traced.
inline std::int64_t begin_of_span() noexcept {
  return span_track != nullptr && span_track->is_on() ? span_clock() : 0;
}
/// Records `span` up to now, unless its begin is 0.
inline void end_span(const Span& span) noexcept {
  if (span.begin == 0 || span_track == nullptr) return;
  Span whole = span;
  whole.end = span_clock();
  span_track->push(whole);
}

inline bool SpanTrack::is_on() const noexcept {
  return recorder_.is_on();
}

}  // namespace distdl
