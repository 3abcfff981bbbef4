// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/base/end_limit.hpp>
#include <distdl/base/signals.hpp>

namespace distdl {

EndLimit::EndLimit(std::string what, Milliseconds limit, ExitCode code) : what_(std::move(what)), code_(code) {
  try {
    const SignalsBlocked in_thread;
    thread_ = std::thread([this, limit] { watch(limit); });
  } catch (const std::exception&) {  // it may end all the same
  }
}

EndLimit::~EndLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// The log may wait for the same file system.
void EndLimit::watch(Milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit, [this] { return is_over_; })) return;
  try {
    Console(STDERR_FILENO)
        .line(fmt::format("error {} has not ended for {:.3g} s: a file system does not answer; this process ends now",
                          what_, std::chrono::duration<double>(limit).count()));
  } catch (const std::exception&) {  // the end counts
  }
  ::_exit(static_cast<int>(code_));
}

}  // namespace distdl
