// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace distdl::observe {

enum class ResultStatus { finished, stopped, failed };

/// The contents of `result.json`: how a run has ended, or its last start.
struct Result {
  ResultStatus status = ResultStatus::finished;
  std::int64_t steps = 0;  ///< done, by the last start
  /// Loss and accuracy (0 .. 1) of the last evaluation; null: there was none.
  std::optional<double> loss = {}, accuracy = {};
  double samples_per_s = 0;                           ///< median over the recorded steps of all starts
  std::optional<double> samples_per_s_of_start = {};  ///< the same of the last start; null: it did no step
  /// The samples of all recorded steps, divided by the time that these steps took; null: there was none. Slow phases
  /// count as much as they took, which the median hides.
  std::optional<double> samples_per_s_mean = {};
  /// Medians over the steps of the last start; null: not known, or nothing is computed again.
  std::optional<double> mfu = {}, hfu = {};
  std::int64_t interruptions = 0;   ///< starts that resumed an unfinished run
  std::int64_t steps_repeated = 0;  ///< number of steps that were done again because of them, each counted every time
  int ranks = 0;
  std::int64_t failed_saves = 0;   ///< saves before the end that failed on the file system; later ones succeeded
  std::int64_t skipped_saves = 0;  ///< saves that were due while the previous one was not finished
  std::string backend;
  std::int64_t start = 0;  ///< number of the last start; 0: not known
  /// Exit code of a run that stopped, failed or ended early (only where "distdl run" writes it), and the cause in words
  /// and as a code (causes.hpp).
  std::optional<int> code = {};
  std::string cause = {}, cause_code = {};
};

/// "finished", "stopped", "failed".
const char* name_of(ResultStatus status);

/// The result according to the rows in a run's folder, with the status `finished`.
Result collect_result(const std::filesystem::path& run_folder);

/// The text of result.json.
std::string to_text(const Result& result);
/// Throws StorageError (corrupt) that names the file `name` if to_text() did not make the text. 0.1 wrote no status but
/// "finished", and no start.
Result result_from(const std::string& text, const std::string& name);
/// Reads result.json. Throws StorageError: incomplete if the run has neither finished, stopped nor failed, corrupt if
/// the file is damaged.
Result read_result(const std::filesystem::path& run_folder);
/// Replaces result.json. Throws StorageError.
void write_result(const std::filesystem::path& run_folder, const Result& result);
/// Removes the result.json of a start that did not finish, or ended early, because another start goes on.
void drop_unfinished_result(const std::filesystem::path& run_folder);

}  // namespace distdl::observe
