// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/exit_codes.hpp>

namespace distdl {

/// Base of all errors that distdl throws on purpose. There is one class per reaction, not per cause. A message names
/// the problem, the object, what was expected, and what to do next.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode exit_code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The user must correct the input.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::config, message) {}
};

/// The command line is wrong.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(ExitCode::usage, message) {}
};

/// A defect of distdl, or a system call that should never fail.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::internal, message) {}
};

/// Slurm, PMIx or the rendezvous failed; a relaunch or a requeue may help.
class SchedulerError : public Error {
 public:
  explicit SchedulerError(const std::string& message) : Error(ExitCode::scheduler, message) {}
};

/// A problem with files: try an older checkpoint, use another folder, or free some space. `code` is storage, corrupt,
/// incomplete, incompatible or superseded.
class StorageError : public Error {
 public:
  explicit StorageError(const std::string& message, ExitCode code = ExitCode::storage) : Error(code, message) {}
};

/// Communication failed, and the communicator can no longer be used. `code` is that of the cause if a lost peer could
/// send it.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message, ExitCode code = ExitCode::peer_lost) : Error(code, message) {}
};

/// Checks input, in all builds. Throws E with a formatted message. Use assert for internal invariants.
template <class E = ConfigError, class... Args>
void require(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw E(fmt::format(message, std::forward<Args>(args)...));
}

/// The exit code of a program that fails with this exception.
ExitCode exit_code_of(const std::exception& error);

/// The text of errno, such as "No space left on device (ENOSPC)". Thread-safe.
std::string errno_text(int number);

}  // namespace distdl
