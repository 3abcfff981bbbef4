// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/observe/record_lines.hpp>

// Follows the files of a run that somebody else writes. They are not trusted, and may lie on a slow file system.
namespace distdl::observe {

/// The lines that are appended to a file. A last line without its newline is read when it is whole.
class LineFollower {
 public:
  explicit LineFollower(std::filesystem::path file) : file_(std::move(file)) {}
  /// Visits the lines that have come since the last call; of a longer file at first those of the last kMostRead bytes.
  /// Returns false if the file is another one than before, or has become shorter: call restart() then. A file that
  /// cannot be read has no lines.
  bool poll(const std::function<void(std::string_view line)>& visit);
  /// Passes over what lies before this byte, and the rest of the line there.
  void begin_at(std::uint64_t offset);
  /// Begins again with the first line.
  void restart() { *this = LineFollower(std::move(file_)); }

 private:
  void take(std::string_view piece, const std::function<void(std::string_view line)>& visit);

  std::filesystem::path file_;
  std::uint64_t device_ = 0, inode_ = 0, offset_ = 0;
  std::string rest_;         ///< beginning of the last line, whose newline is still missing
  bool skips_line_ = false;  ///< true: the rest of the present line is passed over
};

/// Follows metrics.jsonl and journal.jsonl of a run. Of a long metrics.jsonl it reads the end at once, a sample of the
/// rows before, and the evaluations in between later, some MiB at each call.
class EventFollower {
 public:
  /// `whole`: bytes at the end of a metrics.jsonl that are read completely; of the rows before only samples are read.
  explicit EventFollower(const std::filesystem::path& run_folder, std::size_t whole = 4 << 20);

  struct News {
    bool begins_again = false;                   ///< a file was replaced: all that was returned before is void
    std::vector<records::Row> journal = {};      ///< in the order of the file
    std::vector<records::Row> metrics = {};      ///< steps and evaluations, likewise
    std::vector<records::Row> evaluations = {};  ///< older ones than those of `metrics`, in the order of the file
  };
  News poll();
  /// True if there is more to be searched for older evaluations.
  bool is_searching() const { return evaluations_from_ < evaluations_to_; }

 private:
  void begin_metrics(News& news);
  static void read_samples(int descriptor, std::uint64_t end, News& news);
  void read_evaluations(News& news);

  std::filesystem::path metrics_file_;
  std::size_t whole_;
  LineFollower journal_, metrics_;
  bool has_begun_ = false;
  std::uint64_t evaluations_from_ = 0, evaluations_to_ = 0;  ///< bytes that are still to be searched for evaluations
};

}  // namespace distdl::observe
