// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/checkpoint/interval.hpp>
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

/// The records of a run, over all its restarts, in its folder:
///   metrics.jsonl   one object per step {step, epoch, loss, accuracy, learning_rate, samples_per_s,
///                   waited_seconds, with optim.clip_norm also gradient_norm, with fp16 also loss_scale and, where the
///                   gradients overflowed, skipped} and per evaluation {step, epoch, validation_loss,
///                   validation_accuracy}; after a resume, repeated steps appear again
///   journal.jsonl   one object per event: started, checkpoint, snapshot, snapshot_failed, save_skipped,
///                   save_failed, stopped, finished
///   result.json     at the end: Result
/// An incomplete line of a killed run or a full disk is completed with a newline and ignored. Lines that cannot be
/// written are lost with one warning, as are all lines if the file cannot be opened or is not a regular file. Such
/// errors must not end a run. The files are not trusted when they are read (record_lines.hpp).
class RunFolder final : public train::Observer {
 public:
  /// `restart`: how often the scheduler has restarted the job. Throws StorageError if the folder cannot be created.
  RunFolder(std::filesystem::path folder, std::int64_t restart);

  void on(const train::Started& event) override;
  void on(const train::StepDone& event) override;
  void on(const train::Evaluated& event) override;
  void on(const train::CheckpointSaved& event) override;
  void on(const train::SnapshotKept& event) override;
  void on(const train::SnapshotFailed& event) override;
  void on(const train::SaveSkipped& event) override;
  void on(const train::SaveFailed& event) override;
  void on(const train::Stopped& event) override;
  void on(const train::Finished& event) override;

 private:
  struct Lines {
    std::filesystem::path file;
    FileDescriptor descriptor;
    bool torn = false;  ///< the last line is incomplete
  };
  static Lines open_lines(const std::filesystem::path& file);
  void append(Lines& lines, const std::string& row);

  std::filesystem::path folder_;
  std::int64_t restart_;
  Lines metrics_, journal_;
  bool warned_ = false;
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

/// The text of result.json.
std::string to_text(const Result& result);
/// Throws StorageError (corrupt) that names the file `name` if to_text() did not make the text.
Result result_from(const std::string& text, const std::string& name);
/// Reads result.json. Throws StorageError: incomplete if the run has not finished, corrupt if the file is damaged.
Result read_result(const std::filesystem::path& run_folder);

}  // namespace distdl::observe
