// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <distdl/base/clock.hpp>

namespace distdl::observe {

/// Files by which a user asks a run for something, from any machine that sees its folder:
///   STOP   save and stop for good: the job is not requeued, and the rest of a chain does not start the run again
///   SAVE   make a checkpoint now, and go on
/// Each is removed once it was acted on. One process of a run looks for them.
class FileRequests {
 public:
  /// Looks at most once in `period`: file systems of clusters are not to be asked after each step.
  explicit FileRequests(const std::filesystem::path& run_folder, Milliseconds period = Milliseconds(1000));

  /// Why to stop: "the file STOP"; nothing if there is no such file.
  std::optional<std::string> stop();
  /// True if a checkpoint is asked for: once for each file SAVE, which is removed then.
  bool save();

 private:
  std::filesystem::path folder_;
  Milliseconds period_;
  Clock::time_point next_stop_{}, next_save_{};
  bool stops_ = false;
};

bool stop_is_requested(const std::filesystem::path& run_folder);
/// Throws StorageError.
void request_stop(const std::filesystem::path& run_folder);
/// Removes STOP and SAVE, which were meant for what ran before.
void drop_requests(const std::filesystem::path& run_folder);

}  // namespace distdl::observe
