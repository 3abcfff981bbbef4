// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/train/trace_file.hpp>

namespace distdl::train {

/// Measures how far the clocks of the ranks are apart: rank 0 asks each of the others some times, and the shortest
/// round trip counts. Collective. Returns that of this rank, and the name that rank 0 gives to the start.
std::pair<ClockOffset, std::uint64_t> measure_clocks(comm::Communicator& communicator, std::uint64_t start);

/// Which steps of a run are traced: switches the recorder of this rank on and off, and keeps its spans. It must be
/// there before the threads that are recorded, and longer than they are.
class Tracing {
 public:
  /// The calling thread is the one that trains. Without a setting nothing is recorded, and no call below does anything.
  Tracing(const std::optional<TraceSetting>& setting, comm::Communicator& communicator);
  /// Keeps what was recorded since, also of a run that fails.
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  /// The names of the layers, before the first step.
  void set_layers(std::vector<std::string> layers) { layers_ = std::move(layers); }
  /// Collective. This step comes next.
  void before_step(Step step);
  /// Collective. No more steps.
  void end();

 private:
  void start();
  void keep();

  std::optional<TraceSetting> setting_;
  comm::Communicator& communicator_;
  std::vector<std::string> layers_;
  std::shared_ptr<SpanRecorder> recorder_;  ///< null: nothing is traced
  std::optional<RecordedThread> thread_;
  std::unique_ptr<TraceWriter> writer_;  ///< from the first traced step on
  Clock::time_point next_keep_{};
};

/// While it lives, a step is a span, and no phase crosses its ends.
class TracedStep {
 public:
  explicit TracedStep(Step step) noexcept
      : step_(step), begin_(span_track != nullptr ? span_track->split_phase() : 0) {}
  ~TracedStep() {
    if (begin_ == 0) return;
    const std::int64_t end = span_track->split_phase();
    if (end != 0)
      span_track->push(
          {.begin = begin_, .end = end, .name = "step", .number = static_cast<std::uint32_t>(step_.value)});
  }
  TracedStep(const TracedStep&) = delete;
  TracedStep& operator=(const TracedStep&) = delete;

 private:
  Step step_;
  std::int64_t begin_;
};

}  // namespace distdl::train
