// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/comm/reduce/reduce_kernels.hpp>

namespace distdl::comm {

const ReduceKernels& reduce_kernels() {
  return kReduceBaseline;
}

void stream_copy(void* target, const void* source, std::size_t bytes) {
  std::memcpy(target, source, bytes);
}

void finish_streams() {}

}  // namespace distdl::comm
