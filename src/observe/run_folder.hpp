// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/observe/record_writer.hpp>
#include <distdl/train/events.hpp>

namespace distdl::observe {

/// The contents of `result.json`.
struct Result {
  std::int64_t steps = 0;
  std::optional<double> loss = {}, accuracy = {};  ///< of the last evaluation; accuracy 0 .. 1; null: there was none
  double samples_per_s = 0;                        ///< median over all recorded steps
  std::int64_t interruptions = 0;                  ///< starts that resumed an unfinished run
  std::int64_t steps_repeated = 0;  ///< number of steps that were done again because of them, each counted every time
  int ranks = 0;
  std::int64_t failed_saves = 0;   ///< saves before the end that failed on the file system; later ones succeeded
  std::int64_t skipped_saves = 0;  ///< saves that were due while the previous one was not finished
  std::string backend;
};

/// Keeps the records of a run, over all its restarts, in its folder:
///   metrics.jsonl   one object per step {time, step, epoch, loss, accuracy, learning_rate, samples_per_s,
///                   waited_seconds, with optim.clip_norm also gradient_norm, with fp16 also loss_scale and, where the
///                   gradients overflowed, skipped, with several ranks also sum_seconds and sum_waited_seconds,
///                   with pipelines also pipeline_seconds, pipeline_waited_seconds and pipeline_busiest_seconds} and
///                   per evaluation {time, step, epoch, validation_loss, validation_accuracy}; after a resume, repeated
///                   steps appear again; 0.1 wrote no time
///   journal.jsonl   one object per event: started, progress (once a minute), shares, checkpoint, snapshot,
///                   snapshot_failed, save_skipped, save_failed, audited, corrupted, deadline, stopped, finished; and
///                   those of journal.hpp
///   result.json     at the end: Result
/// Lines that cannot be written are lost (record_writer.hpp). The files are not trusted when they are read back
/// (record_lines.hpp).
class RunFolder final : public train::Observer {
 public:
  /// `restart`: how often the scheduler has restarted the job. Throws StorageError if the folder cannot be created.
  RunFolder(std::filesystem::path folder, std::int64_t restart);

  void on(const train::Started& event) override;
  void on(const train::StepDone& event) override;
  void on(const train::CompressionChosen& event) override;
  void on(const train::SharesKnown& event) override;
  void on(const train::Evaluated& event) override;
  void on(const train::CheckpointSaved& event) override;
  void on(const train::SnapshotKept& event) override;
  void on(const train::SnapshotFailed& event) override;
  void on(const train::SaveSkipped& event) override;
  void on(const train::SaveFailed& event) override;
  void on(const train::Audited& event) override;
  void on(const train::Corrupted& event) override;
  void on(const train::DeadlineKnown& event) override;
  void on(const train::Stopped& event) override;
  void on(const train::Finished& event) override;

 private:
  void progress(Step step);

  std::filesystem::path folder_;
  std::int64_t restart_;
  RecordWriter metrics_, journal_;
  Clock::time_point next_progress_{};
  Result result_;
};

/// The training time of the run in a folder and the number of failed starts, according to the journal. The next start
/// calls this before it writes its own line. Empty if there is no journal.
checkpoint::FailureRecord read_failures(const std::filesystem::path& run_folder);

/// The first steps of all starts of the run in a folder, oldest start first, according to the journal.
std::vector<Step> read_starts(const std::filesystem::path& run_folder);

/// The last step that the run in a folder has done, according to the newest row of metrics.jsonl. Returns nothing if
/// there is no readable row.
std::optional<Step> read_last_step(const std::filesystem::path& run_folder);

/// The loss of the step after `step`, as the start recorded it that made this state last. Returns nothing if it did not
/// get so far, or an audit found later that what it recorded may be wrong.
std::optional<double> read_loss_after(const std::filesystem::path& run_folder, Step step);

/// The times of steps, evaluations and saves that the newest row "deadline" of the journal has; zeros where there is
/// none.
train::MeasuredTimes read_measured_times(const std::filesystem::path& run_folder);
/// Seconds in which the median rank computed a microbatch of so many samples, as ranks measured last that each have the
/// whole model and keep all activations; 0: not known. Rows of older versions, which do not tell, count as such.
double read_microbatch_seconds(const std::filesystem::path& run_folder, std::int64_t microbatch_size);

/// The text of result.json.
std::string to_text(const Result& result);
/// Throws StorageError (corrupt) that names the file `name` if to_text() did not make the text.
Result result_from(const std::string& text, const std::string& name);
/// Reads result.json. Throws StorageError: incomplete if the run has not finished, corrupt if the file is damaged.
Result read_result(const std::filesystem::path& run_folder);

}  // namespace distdl::observe
