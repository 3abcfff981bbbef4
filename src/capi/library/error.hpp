// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <distdl/capi/distdl.h>

namespace distdl::capi {

/// A call of the C interface that fails with a code of its own.
class CallError : public std::runtime_error {
 public:
  CallError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

template <class... Args>
[[noreturn]] void fail(int code, fmt::format_string<Args...> message, Args&&... args) {
  throw CallError(code, fmt::format(message, std::forward<Args>(args)...));
}

/// Checks an argument.
template <class... Args>
void need(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition) throw CallError(DISTDL_INVALID, fmt::format(message, std::forward<Args>(args)...));
}

/// The subject of a ConfigError: the options of the caller, or another argument.
enum class Blame { options, arguments };

/// Turns the exception that is being handled into a code, and keeps its text and exit code for this thread.
int report(const char* function, Blame blame) noexcept;
/// Keeps a text and an exit code for this thread.
void keep_error(int exit_code, const std::string& text) noexcept;

/// Every function of the interface that can fail: calls `body`, and returns a code.
template <Blame blame = Blame::arguments, class Body>
int guarded(const char* function, Body&& body) noexcept {
  try {
    body();
    return DISTDL_OK;
  } catch (...) {
    return report(function, blame);
  }
}

}  // namespace distdl::capi
