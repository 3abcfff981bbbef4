// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <distdl/records/observer.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::train {

/// The work after the next step, as far as the last moment to stop depends on it.
struct NextStep {
  bool evaluates = false;       ///< true if the model is evaluated after the step
  bool waits_for_save = false;  ///< true if the last save has to wait for one that is under way, or begins then
};

/// The rule by which a run stops in time: so many seconds before the end of the job the next step must begin at the
/// latest. Two steps, for the next one may be slower and the one after it only learns of the request; the evaluation,
/// half as long again; the save that the last one waits for; the last save, half as long again; the margin
/// (train.stop_margin_seconds).
double seconds_needed(const records::MeasuredTimes& times, const NextStep& next, double margin);

/// The seconds before the end of the job at which an evaluation that is under way must be given up: only the saves are
/// left.
double seconds_to_save(const records::MeasuredTimes& times, bool waits_for_save, double margin);

/// Whether the grace period of a preemption is enough: for the step that is under way, the save that is under way, and
/// the last one.
bool is_enough(std::chrono::seconds grace, const records::MeasuredTimes& times);

/// The longest of the last `N` times: what was slow once, as the first step or one during which the job was suspended,
/// is forgotten.
template <std::size_t N>
class LongestOfLast {
 public:
  void add(double seconds) {
    times_[next_] = seconds;
    next_ = (next_ + 1) % N;
  }
  double value() const { return *std::max_element(times_.begin(), times_.end()); }

 private:
  std::array<double, N> times_{};
  std::size_t next_ = 0;
};

/// Decides when to stop, from the end of the job and the measured times of steps, evaluations and saves.
class EndOfJob {
 public:
  using Time = std::chrono::system_clock::time_point;
  /// `before`: measured by an earlier start of the run; this one's own times replace them one by one.
  EndOfJob(const slurm::JobLimits& limits, double margin_seconds, const records::MeasuredTimes& before = {});

  void step_took(double seconds) { add(steps_, seconds); }
  void evaluation_took(double seconds) { add(evaluations_, seconds); }
  void save_took(double seconds) { add(saves_, seconds); }
  /// A save that went to the nodes' memory or disks only.
  void snapshot_took(double seconds) { add(snapshots_, seconds); }
  /// Until an evaluation was measured it counts as so many steps.
  void set_steps_per_evaluation(double steps) { steps_per_evaluation_ = steps; }
  /// The end as the scheduler has it now. Returns whether it has moved.
  bool set_end(Time end) { return std::exchange(limits_.end, end) != end; }
  /// `disturbed`: true if measurements do not count from now on, because the process was suspended meanwhile.
  void set_disturbed(bool disturbed) { disturbed_ = disturbed; }
  bool is_disturbed() const { return disturbed_; }

  records::MeasuredTimes times() const;
  /// A reason to stop now, because after one more step there might not be time for a save.
  std::optional<std::string> poll(Time now, const NextStep& next = {}) const;
  /// Whether an evaluation that is under way must be given up.
  bool must_save(Time now, bool waits_for_save) const;
  /// The deadline with the times behind it, for people; nothing if neither an end nor a preemption is known.
  std::optional<records::DeadlineKnown> deadline(const NextStep& next = {}) const;

 private:
  template <std::size_t N>
  void add(LongestOfLast<N>& times, double seconds) {
    if (!disturbed_) times.add(seconds);
  }

  slurm::JobLimits limits_;
  double margin_;
  LongestOfLast<100> steps_;
  LongestOfLast<3> evaluations_;
  LongestOfLast<5> saves_, snapshots_;
  double steps_per_evaluation_ = 0;
  bool disturbed_ = false;
};

/// The rule with its numbers, in words: "stops 49 s before the end of the job: two steps of 2 s, ...".
std::string explain(const records::DeadlineKnown& deadline);

/// Which of the deadlines of a run are told: the first, one of another end, and at most every 30 s one that has moved
/// by more than a second.
class DeadlineNews {
 public:
  bool is_news(const records::DeadlineKnown& deadline, double now);

 private:
  std::optional<records::DeadlineKnown> told_;
  double told_at_ = 0;
};

}  // namespace distdl::train
