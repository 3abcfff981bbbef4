// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/work_progress.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;

constexpr auto kSilence = 1s;     // shorter work needs no bar
constexpr auto kDraw = 100ms;     // between two bars
constexpr auto kFirstLine = 30s;  // where there is no terminal; then twice as long each time
constexpr auto kLongestPause = 600s;

std::array<std::atomic<std::uint64_t>, 4> done{};  // of each unit
std::atomic<bool> is_taken{false};

std::atomic<std::uint64_t>& done_of(WorkUnit unit) {
  return done[static_cast<std::size_t>(unit)];
}
}  // namespace

std::string duration_text(double seconds) {
  constexpr long kMinute = 60, kHour = 3600;
  const long whole = std::lround(std::clamp(seconds, 0.0, 1e9));
  if (whole < kMinute) return fmt::format("{} s", whole);
  if (whole < kHour) return fmt::format("{}:{:02} min", whole / kMinute, whole % kMinute);
  return fmt::format("{}:{:02}:{:02} h", whole / kHour, whole % kHour / kMinute, whole % kMinute);
}

std::string times_text(double fraction, double seconds) {
  if (fraction <= 0 || fraction >= 1) return duration_text(seconds);
  return fmt::format("{}, {} left", duration_text(seconds), duration_text(seconds / fraction * (1 - fraction)));
}

void work_done(WorkUnit unit, std::uint64_t amount) noexcept {
  done_of(unit).fetch_add(amount, std::memory_order_relaxed);
}

WorkProgress::WorkProgress(std::string what, WorkUnit unit, std::uint64_t total)
    : console_(STDERR_FILENO), unit_(unit), before_(done_of(unit)), total_(total), what_(std::move(what)) {
  if (verbosity() == Verbosity::quiet || is_taken.exchange(true)) return;
  try {
    thread_ = std::thread([this] { show(); });
  } catch (const std::system_error&) {  // no thread may be started: the work goes on without being shown
    is_taken = false;
  }
}

WorkProgress::~WorkProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
  is_taken = false;
}

void WorkProgress::now(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}

void WorkProgress::show() {
  std::unique_lock lock(mutex_);
  const bool on_terminal = console_.is_terminal();
  Clock::duration pause = on_terminal ? Clock::duration(kSilence) : kFirstLine;
  bool has_drawn = false;
  while (!ends_.wait_for(lock, pause, [this] { return has_ended_; })) {
    if (on_terminal)
      console_.status(text());
    else
      console_.line(text());
    has_drawn = true;
    pause = on_terminal ? Clock::duration(kDraw) : std::min<Clock::duration>(2 * pause, kLongestPause);
  }
  if (has_drawn) console_.clear_status();
}

std::string WorkProgress::text() const {
  constexpr int kFigures = 50, kNarrowest = 10, kWidest = 30;  // columns of the text beside the bar, and of the bar
  const double seconds = watch_.seconds();
  // The name may be long, and a status line is cut at its end.
  if (total_ == 0) return fmt::format("{}  {}", duration_text(seconds), what_);
  const double fraction = std::min(1.0, static_cast<double>(done_of(unit_) - before_) / static_cast<double>(total_));
  auto figures = fmt::format("{:3.0f}%  {}  {}", fraction * 100, times_text(fraction, seconds), what_);
  if (!console_.is_terminal()) return figures;
  const auto bar = console_.bar(fraction, std::clamp(console_.width() - kFigures, kNarrowest, kWidest));
  return fmt::format("{} {}", console_.coloured(bar, Colour::cyan), figures);
}

}  // namespace distdl
