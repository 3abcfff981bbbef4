// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <distdl/agent/beats.hpp>
#include <distdl/config/job.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/program/contract.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::app {

/// Whether a metric of this name is one of an evaluation: "validation_loss", "val_loss", "eval_loss", and so on.
bool is_of_evaluation(const std::string& name);

/// The records that rank 0 keeps of a run whose ranks run a program, and the stop that it decides on for all: by the
/// file STOP, and by the end of the job, early enough for as long as the program took to save and stop before.
class ProgramRecords {
 public:
  /// `beats`: to the rank's agent; may be null. Throws as RunFolder does.
  ProgramRecords(const config::Job& job, int ranks, std::int64_t start, agent::Beats* beats);

  /// Metrics of an evaluation (is_of_evaluation()) get a row of their own.
  void progress(std::int64_t step, std::optional<std::int64_t> steps, std::span<const program::NamedValue> metrics);
  /// Metrics of an evaluation of the last step.
  void evaluated(std::span<const program::NamedValue> metrics);
  /// Metrics that were told after the last step.
  void last(std::span<const program::NamedValue> metrics);
  void saved(std::int64_t step, std::optional<double> seconds);
  /// Why the run is to stop now, if it is.
  std::optional<std::string> stop_request();
  /// When the job ends, as far as that is known.
  std::optional<slurm::Time> end_of_job() const { return end_; }
  /// The program has ended so long after it was asked to stop.
  void stop_took(double seconds);
  void stopped(const std::string& reason);
  /// `early`: why before the last step; empty: all is done. Of a program that tells no evaluation the loss and accuracy
  /// of the last step that had one count.
  void finished(const std::string& early);
  void failed(const std::exception& error) { folder_.failed(error); }

  bool has_progress() const { return has_progress_; }
  bool has_saved() const { return saved_.has_value(); }
  std::int64_t step() const { return step_; }
  /// All steps that there are, as far as the program has told, are done.
  bool is_complete() const { return steps_ && step_ >= *steps_; }
  /// The steps up to train.end_at_step are done, and there are more.
  bool is_part_done() const { return end_at_step_ > 0 && step_ >= end_at_step_ && !is_complete(); }

 private:
  void tell_deadline();
  void record(records::StepDone done, std::span<const program::NamedValue> metrics);

  observe::RunFolder folder_;
  agent::Beats* beats_;
  observe::FileRequests requests_;
  std::filesystem::path run_folder_;
  std::optional<slurm::Allocation> allocation_;
  std::optional<slurm::Time> end_;
  train::EndOfJob rule_;
  train::DeadlineNews news_;
  Clock::time_point next_look_{}, last_step_ = Clock::now();
  std::int64_t step_ = 0, end_at_step_ = 0;
  std::optional<std::int64_t> steps_, saved_;
  std::optional<double> loss_, accuracy_;  ///< values of the last step that had one
  bool has_progress_ = false;
};

}  // namespace distdl::app
