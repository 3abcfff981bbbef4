// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/host.hpp>
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {

/// When a rank has to stop: by request, or since the job ends, whose end may move while it trains.
class Stopping {
 public:
  /// The references must outlive this object. `warns`: true if this rank warns that a preemption leaves too little
  /// time.
  Stopping(Host& host, EndOfJob& end_of_job, records::Observer& observer, bool warns)
      : host_(host), end_of_job_(end_of_job), observer_(observer), warns_(warns) {}

  /// The reason of this rank to stop, between steps; nothing: there is none.
  std::optional<std::string> reason(const NextStep& next) const;
  /// True if this rank has to stop during an evaluation. `is_busy`: a save is under way.
  bool is_due(bool is_busy) const;
  /// Whether the process was suspended: then what was measured counts for nothing, and the end may have moved.
  void look_for_suspension(bool is_busy);
  /// Tells until when the run may train, and asks whether that has changed.
  void follow_deadline(const NextStep& next);

 private:
  Host& host_;
  EndOfJob& end_of_job_;
  records::Observer& observer_;
  bool warns_;
  DeadlineNews news_;
  Clock::time_point next_look_{};  ///< for another end of the job
  Clock::time_point doubted_{};    ///< until then the end of the job may not be what it was
};

}  // namespace distdl::train
