// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::program {

/// The output of a program, which comes in pieces, as lines. A progress bar writes its line again and again, with a
/// carriage return in between: such versions of a line are visited too, but only the last one stays.
class OutputLines {
 public:
  static constexpr std::size_t kLongest = 64 << 10;  ///< bytes; a longer line becomes several

  /// Calls visit(line, stays).
  template <class Visit>
  void add(std::string_view bytes, Visit&& visit) {
    for (const char c : bytes) {
      const bool is_end = c == '\n' || text_.size() >= kLongest;
      if (is_end) {
        visit(std::string_view(text_), true);
        text_.clear();
        is_replaced_ = false;
        if (c == '\n') continue;
      }
      if (c == '\r') {
        if (!text_.empty()) visit(std::string_view(text_), false);
        is_replaced_ = true;
        continue;
      }
      if (is_replaced_) text_.clear();
      is_replaced_ = false;
      text_ += c;
    }
  }
  /// A last line without its end.
  template <class Visit>
  void finish(Visit&& visit) {
    if (!text_.empty()) visit(std::string_view(text_), true);
    text_.clear();
  }

 private:
  std::string text_;
  bool is_replaced_ = false;  ///< the next character begins the line anew
};

/// The file with the output of a rank, logs/<host>.rank-<R>.log: lines as those of the other logs. When it has 64 MiB
/// it becomes logs/<host>.rank-<R>.before.log, in the place of the one before. What the file system refuses is lost.
class OutputFile {
 public:
  OutputFile(const std::filesystem::path& logs, const std::string& host, int rank);
  void write(std::string_view line);

 private:
  static constexpr std::uint64_t kMost = 64 << 20;
  void open();

  std::filesystem::path file_, before_;
  std::string head_;
  FileDescriptor descriptor_;
  std::uint64_t bytes_ = 0;
  bool is_told_ = false;
};

}  // namespace distdl::program
