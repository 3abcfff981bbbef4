// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/base/exit_codes.hpp>

namespace distdl {

/// How long this process waits for the end of a thread that may be inside a file system. While this object lives, the
/// process has so much time; then it says on stderr what it waits for, and ends with `code`. Such a thread
/// cannot be ended otherwise, and what it uses cannot be freed.
/// Example: { const EndLimit limit("the reader of \"train.h5\"", 10s); thread.join(); }
class EndLimit {
 public:
  EndLimit(std::string what, Milliseconds limit, ExitCode code = ExitCode::storage);
  ~EndLimit();
  EndLimit(const EndLimit&) = delete;
  EndLimit& operator=(const EndLimit&) = delete;

 private:
  void watch(Milliseconds limit);

  std::string what_;
  ExitCode code_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  ///< the last member; none if the system refuses it: then nothing has a limit
};

}  // namespace distdl
