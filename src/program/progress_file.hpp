// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include <distdl/program/patterns.hpp>

namespace distdl::program {

/// The file in which a program notes its progress (run.progress_file): any file, whose last line is looked at; or an
/// event file of TensorBoard, or a folder in which a program makes such.
class ProgressFile {
 public:
  /// Contents that are there now, before the program begins, count for nothing. `patterns` must outlive this.
  ProgressFile(std::filesystem::path path, const Patterns& patterns);

  struct Seen {
    bool has_changed = false;           ///< since the last look: a sign of life
    std::vector<LineFacts> facts = {};  ///< a line's, or those of steps of event files, in their order
  };
  /// Reads at most 4 MiB. A file that cannot be read has not changed.
  Seen look();

 private:
  struct File {
    std::int64_t bytes = 0, seconds = 0, nanoseconds = 0;
    std::uint64_t done = 0;  ///< bytes of an event file that were read
    bool is_damaged = false;
  };
  static File file_of(const struct stat& status);
  std::vector<std::filesystem::path> files() const;
  void look_at(const std::filesystem::path& path, Seen& seen);
  void look_at_line(const std::filesystem::path& path, Seen& seen) const;
  static void look_at_events(const std::filesystem::path& path, File& file, Seen& seen);

  std::filesystem::path path_;
  const Patterns& patterns_;
  std::map<std::filesystem::path, File> known_;
};

}  // namespace distdl::program
