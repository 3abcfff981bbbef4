// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <mutex>

#include <ucs/debug/log_def.h>

#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/ucx/ucx_log.hpp>

namespace distdl::comm {
namespace {
thread_local bool opening = false;

/// UCX itself prints the messages before its abort, and those that its user requested.
ucs_log_func_rc_t take(const char*, unsigned, const char*, ucs_log_level_t level, const ucs_log_component_config_t*,
                       const char* format, va_list arguments) {
  if (level != UCS_LOG_LEVEL_ERROR && level != UCS_LOG_LEVEL_WARN && level != UCS_LOG_LEVEL_DIAG)
    return UCS_LOG_FUNC_RC_CONTINUE;
  std::array<char, 1024> line{};
  if (std::vsnprintf(line.data(), line.size(), format, arguments) < 0) return UCS_LOG_FUNC_RC_CONTINUE;
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
