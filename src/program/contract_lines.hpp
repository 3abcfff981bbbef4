// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/program/contract.hpp>

// The lines of the run contract: a JSON object each, over the socket that kContractVariable names. docs/programs.md
// describes them for programs that speak them without our library.
namespace distdl::program {

/// A line of a program for its rank. Each line has some of these.
struct FromProgram {
  bool asks = false;                       ///< it asks whether to stop, now and later: it needs no signal
  std::optional<std::int64_t> call = {};   ///< the number of its question
  std::optional<std::int64_t> step = {};   ///< steps that are done
  std::optional<std::int64_t> steps = {};  ///< steps that there are
  std::vector<NamedValue> metrics = {};    ///< metrics of that step
  std::optional<std::int64_t> saved = {};  ///< the step whose state is saved
  std::optional<double> save_seconds = {};
  bool finished = false;   ///< all work is done
  bool asks_left = false;  ///< wants to know the time that is left
};
std::string to_line(const FromProgram& message);
/// Nothing if the text is no such line. Unknown members count for nothing.
std::optional<FromProgram> from_program(std::string_view line);

/// A line of a rank for its program.
struct ToProgram {
  bool is_asked = false;                     ///< the run is asked to stop: the next question waits for stop_at
  std::optional<std::int64_t> stop_at = {};  ///< the question that all ranks answer with true, and all later ones
  bool tells_left = false;                   ///< answers asks_left
  std::optional<double> left = {};           ///< seconds until the job ends; nothing: not known
};
std::string to_line(const ToProgram& message);
std::optional<ToProgram> to_program(std::string_view line);

/// Bytes that come in pieces, as lines. A line longer than a MiB is dropped.
class LineBuffer {
 public:
  /// Calls visit(line) for each line that is whole now.
  template <class Visit>
  void add(std::string_view bytes, Visit&& visit) {
    for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
      text_ += bytes.substr(0, end);
      if (!is_too_long_) visit(std::string_view(text_));
      text_.clear();
      is_too_long_ = false;
    }
    if (text_.size() + bytes.size() > kLongest) {
      text_.clear();
      is_too_long_ = true;
    }
    if (!is_too_long_) text_ += bytes;
  }

 private:
  static constexpr std::size_t kLongest = 1 << 20;
  std::string text_;
  bool is_too_long_ = false;
};

}  // namespace distdl::program
