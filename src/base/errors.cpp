// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>

namespace distdl {

ExitCode exit_code_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  return ours ? ours->exit_code() : ExitCode::internal;
}

std::string errno_text(int number) {
  if (number == 0) return "the cause is unknown";  // "Success" would be none
  const char* name = strerrorname_np(number);
  const char* text = strerrordesc_np(number);
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(number));
}

}  // namespace distdl
