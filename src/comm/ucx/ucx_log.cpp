// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <system_error>

#include <ucs/debug/log_def.h>

#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/ucx/ucx_log.hpp>

namespace distdl::comm {
namespace {
thread_local bool opening = false;

/// UCX starts its thread by ucs_pthread_create(), and aborts the program if that fails (ucs_async_thread_start, 1.13
/// and later). open_context() tries a thread first, but another process of the user may have taken the last one since.
bool is_want_of_thread(std::string_view line) {
  return line.starts_with("pthread_create() failed") && line.ends_with(std::generic_category().message(EAGAIN));
}

/// UCX itself prints the messages before its abort, and those that its user requested.
ucs_log_func_rc_t take(const char*, unsigned, const char*, ucs_log_level_t level, const ucs_log_component_config_t*,
                       const char* format, va_list arguments) {
  if (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN && level != UCS_LOG_LEVEL_DIAG)
    return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 1024> line{};
  if (std::vsnprintf(line.data(), line.size(), format, arguments) < 0) return UCS_LOG_FUNC_RC_CONTINUE;
  if (level == UCS_LOG_LEVEL_ERROR && is_want_of_thread(line.data())) end_without_thread();
  try {
    log(opening ? Severity::warning : Severity::debug, "UCX: {}", line.data());
  } catch (...) {  // C code called
    return UCS_LOG_FUNC_RC_CONTINUE;
  }
  return UCS_LOG_FUNC_RC_STOP;
}
}  // namespace

void route_ucx_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!env("UCX_LOG_LEVEL")) ucs_log_push_handler(&take);
  });
}

ContextOpening::ContextOpening() {
  route_ucx_log();
  opening = true;
}

ContextOpening::~ContextOpening() {
  opening = false;
}

}  // namespace distdl::comm
