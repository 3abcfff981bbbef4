// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/observe/metrics/open_metrics.hpp>
#include <distdl/observe/metrics/thinning.hpp>
#include <distdl/observe/options.hpp>
#include <distdl/observe/record_writer.hpp>
#include <distdl/observe/run/result.hpp>
#include <distdl/observe/tensorboard/tensorboard.hpp>
#include <distdl/records/observer.hpp>

namespace distdl::observe {

/// Keeps the records of a run, over all its restarts, in its folder:
///   metrics.jsonl   one row per step and per evaluation; after a resume, repeated steps appear again, with another
///                   `start`. Its size is limited (Options::records_mib, thinning.hpp). Rows of short steps are written
///                   together, four times a second, and before a save begins: a killed rank loses at most those of
///                   250 ms, of steps that are done again
///   journal.jsonl   one row per event, also those of other processes than ranks
///   tensorboard/    with Options::tensorboard: event files (tensorboard.hpp)
///   result.json     when the ranks have finished or stopped: Result. Where they failed, "distdl run" writes it
/// The rows are those of the room src/records. Lines that cannot be written are lost (record_writer.hpp). The files
/// are not trusted when they are read back (record_lines.hpp).
class RunFolder final : public records::Observer {
 public:
  /// `restart`: how often the scheduler has restarted the job. Throws StorageError if the folder cannot be created,
  /// ConfigError if Options::openmetrics names no place for a file.
  RunFolder(const std::filesystem::path& folder, std::int64_t restart, const Options& options = {});
  ~RunFolder() override;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void on(const records::Record& record) override;
  void save_begins() override { write_steps(); }
  /// Records that the rank ends with an error.
  void failed(const std::exception& error);

 private:
  /// The overload for a kind takes its records; the template those that are rows of the journal and nothing else.
  template <class Kind>
  void take(const Kind& record) {
    append_journal(record);
  }
  void take(const records::ProductChosen& chosen);
  void take(records::Started started);
  void take(const records::StepDone& done);
  void take(const records::Evaluated& evaluated);
  void take(const records::Corrupted& corrupted);
  void take(const records::Stopped& stopped);
  void take(const records::Finished& finished);
  /// The row of a record that happens now.
  records::Row row_of(records::Record record) const;
  /// Writes the rows of steps that are not in metrics.jsonl yet.
  void write_steps();
  void append_journal(records::Record record);
  /// Passes the row to the files of OpenMetrics and TensorBoard.
  void show(const records::Row& row);
  bool is_one_too_many(const records::Record& record);
  void progress(Step step);
  Result result(Step step);

  std::filesystem::path folder_;
  std::int64_t restart_, start_ = 0;
  std::uint64_t most_bytes_;  ///< size that each file may have, in bytes; 0: no limit
  ThinnedWriter metrics_;
  RecordWriter journal_;
  std::optional<OpenMetrics> open_metrics_;
  std::optional<TensorBoard> tensorboard_;
  std::vector<records::Row> steps_;  ///< rows that are to be written
  Clock::time_point next_steps_{};
  bool is_first_of_start_ = false;
  std::map<std::string_view, Clock::time_point> next_of_kind_;
  Clock::time_point next_progress_{};
  Step step_;  ///< done last
  int ranks_ = 0;
  std::string backend_;
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
records::MeasuredTimes read_measured_times(const std::filesystem::path& run_folder);
/// Seconds in which the median rank computed a microbatch of so many samples, as ranks measured last that each have the
/// whole model and keep all activations; 0: not known. Rows of older versions, which do not tell, count as such.
double read_microbatch_seconds(const std::filesystem::path& run_folder, std::int64_t microbatch_size);

}  // namespace distdl::observe
