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

/// A program that is talked to line by line through its stdin and stdout. Killed when this goes out of scope.
class LineProcess {
 public:
  /// Starts it as start_process() does.
  LineProcess(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  /// Writes `line` and a line feed. False if nobody listens any more.
  bool write_line(const std::string& line);
  /// The next line; nothing if there is none within `timeout`, or none any more.
  std::optional<std::string> read_line(Milliseconds timeout);
  /// Closes its stdin and waits until it ends; kills it after `timeout`. Returns its exit code as of a shell.
  int finish(Milliseconds timeout);

 private:
  FileDescriptor input_, output_;
  pid_t pid_ = -1;
  std::string unread_;
};

}  // namespace distdl
