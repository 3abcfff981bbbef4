// SPDX-License-Identifier: Apache-2.0
#include <distdl/version.hpp>

namespace distdl {

const char* version() noexcept {
  return DISTDL_VERSION;
}

}  // namespace distdl
