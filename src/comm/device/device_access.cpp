// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include <distdl/comm/device/device_access.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kSmallest = 4096;
}

tensor::Buffer StagingPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  auto& buffers = free_[size];
  if (buffers.empty()) return accelerator_.allocate_staging(size);
  tensor::Buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

void StagingPool::give_back(tensor::Buffer buffer) noexcept {
  free_[buffer.bytes()].push_back(std::move(buffer));
}

}  // namespace distdl::comm
