// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <distdl/app/watch/followed_run.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::app {

/// Reads all of the runs once, and asks Slurm about their jobs.
class RunFiles {
 public:
  explicit RunFiles(const std::vector<std::filesystem::path>& folders);
  /// Reads all that is there now, and not only a sample of long files.
  static std::vector<RunView> read_whole(const std::vector<std::filesystem::path>& folders);
  /// Reads what is new, and asks Slurm now and then: with one question for all runs.
  std::vector<RunView> read();

 private:
  void ask_slurm();

  std::vector<FollowedRun> runs_;
  std::optional<Deadline> next_question_;
  std::vector<observe::Phase> phases_;  ///< at the last question
};

/// Reads runs again and again in a thread of its own: a file system or Slurm may not answer, and keys must work all the
/// same. The thread takes no signals.
class RunReader {
 public:
  explicit RunReader(const std::vector<std::filesystem::path>& folders);
  /// Waits for a reading that is under way, but not long.
  ~RunReader();
  RunReader(const RunReader&) = delete;
  RunReader& operator=(const RunReader&) = delete;

  /// The newest views, if they have not been taken yet.
  std::optional<std::vector<RunView>> take();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool ends = false, has_ended = false;
    std::optional<std::vector<RunView>> views;
  };
  static void read_again_and_again(Shared& shared, const std::vector<std::filesystem::path>& folders);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};

/// Views of runs that have not been read yet.
std::vector<RunView> unread_views(const std::vector<std::filesystem::path>& folders);

}  // namespace distdl::app
