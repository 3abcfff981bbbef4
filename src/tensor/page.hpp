// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <unistd.h>

namespace distdl::tensor {

/// Bytes of a page of this machine's memory: 4 KiB on x86, up to 64 KiB on Arm.
inline std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace distdl::tensor
