// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <distdl/base/handles.hpp>

namespace distdl {

inline void close_descriptor(int descriptor) noexcept {
  ::close(descriptor);
}

/// An open file descriptor. A writer that must know whether close() succeeded calls ::close(fd.release()) itself.
using FileDescriptor = UniqueHandle<int, &close_descriptor, -1>;

}  // namespace distdl
