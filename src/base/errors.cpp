// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>

namespace distdl {

std::string errno_text(int number) {
  const char* name = strerrorname_np(number);
  const char* text = strerrordesc_np(number);
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(number));
}

}  // namespace distdl
