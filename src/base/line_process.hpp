// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// A program with which this process exchanges lines through stdin and stdout. The destructor kills it.
class LineProcess {
 public:
  /// Starts the program as start_process() does.
  LineProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  /// Writes `line` and a line feed. Returns false if the program has closed its stdin.
  bool write_line(const std::string& line);
  /// Returns the next line, or nothing after `timeout` or at the end of the output.
  std::optional<std::string> read_line(Milliseconds timeout);
  /// Closes the program's stdin and waits until it ends; kills it after `timeout`. Returns its exit code as a shell
  /// would.
  int finish(Milliseconds timeout);

 private:
  FileDescriptor input_, output_;
  pid_t pid_ = -1;
  std::string unread_;
};

}  // namespace distdl
