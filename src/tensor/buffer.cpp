// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include <sys/mman.h>

#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/page.hpp>

namespace distdl::tensor {
namespace {
/// The count of the thread's innermost DryAllocations.
std::shared_ptr<std::size_t>& dry_bytes() {
  thread_local std::shared_ptr<std::size_t> bytes;
  return bytes;
}

void* map(std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  return data;
}

Buffer reserve(std::size_t bytes, std::size_t rounded) {
  void* const data = map(rounded);
  *dry_bytes() += rounded;
  return {data, bytes, [rounded, count = dry_bytes()](void* p) {
            *count -= rounded;
            ::munmap(p, rounded);
          }};
}
}  // namespace

DryAllocations::DryAllocations()
    : bytes_(std::make_shared<std::size_t>(0)), before_(std::exchange(dry_bytes(), bytes_)) {}

DryAllocations::~DryAllocations() {
  dry_bytes() = before_;
}

Buffer allocate_host(std::size_t bytes) {
  std::size_t rounded = (bytes + 63) / 64 * 64;
  if (rounded == 0) rounded = 64;
  if (dry_bytes()) return reserve(bytes, rounded);
  void* data = std::aligned_alloc(64, rounded);
  if (!data) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return Buffer(data, bytes, [](void* p) { std::free(p); });
}

Buffer reserve_host(std::size_t bytes) {
  const std::size_t some = std::max<std::size_t>(bytes, 1);
  if (dry_bytes()) return reserve(bytes, some);
  void* const data = map(some);
  ::madvise(data, some, MADV_NOHUGEPAGE);  // without huge pages in the kernel there is nothing to refuse
  return {data, bytes, [some](void* p) { ::munmap(p, some); }};
}

void discard(std::span<std::byte> memory) noexcept {
  const std::size_t page = page_bytes();
  void* first = memory.data();
  std::size_t room = memory.size();
  if (std::align(page, page, first, room) == nullptr) return;
  ::madvise(first, room / page * page, MADV_DONTNEED);
}

}  // namespace distdl::tensor
