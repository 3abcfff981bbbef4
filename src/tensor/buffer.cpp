// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include <distdl/tensor/buffer.hpp>

namespace distdl::tensor {

Buffer allocate_host(std::size_t bytes) {
  std::size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded == 0) rounded = 64;
  void* data = std::aligned_alloc(64, rounded);
  if (!data) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return Buffer(data, bytes, [](void* p) { std::free(p); });
}

void discard(std::span<std::byte> memory) noexcept {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* first = memory.data();
  std::size_t room = memory.size();
  if (std::align(page, page, first, room) == nullptr) return;
  ::madvise(first, room / page * page, MADV_DONTNEED);
}

}  // namespace distdl::tensor
