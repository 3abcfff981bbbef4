// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace distdl::tensor {

/// Owns a block of memory: host, pinned host or device memory. The allocator provides the function that frees it.
class Buffer {
 public:
  using Free = std::function<void(void*)>;

  Buffer() = default;
  Buffer(void* data, std::size_t bytes, Free free) : data_(data, std::move(free)), bytes_(bytes) {}

  void* data() const noexcept { return data_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }
  /// The memory as an array. Only code that can address the memory may access it.
  template <class T>
  std::span<T> as() const noexcept {
    return {static_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }

 private:
  std::unique_ptr<void, Free> data_{nullptr, [](void*) {}};
  std::size_t bytes_ = 0;
};

/// Gives the whole pages within memory of allocate_host() back to the system. What lay there is zero afterwards, and
/// takes memory again when it is written.
void discard(std::span<std::byte> memory) noexcept;

/// Zeroed host memory, aligned to 64 bytes. Throws std::bad_alloc.
Buffer allocate_host(std::size_t bytes);

/// Zeroed host memory, aligned to pages. It takes memory of the machine only where it is written, page by page: a huge
/// page would take some for the neighbours of the written place. Throws std::bad_alloc.
Buffer reserve_host(std::size_t bytes);

/// While this object exists, allocate_host() of its thread reserves addresses only: the memory reads as zeros, and
/// takes none of the machine until it is written. So what a program would need can be counted where it does not fit.
class DryAllocations {
 public:
  DryAllocations();
  ~DryAllocations();
  DryAllocations(const DryAllocations&) = delete;
  DryAllocations& operator=(const DryAllocations&) = delete;

  /// Bytes of the buffers that were allocated since, and exist still.
  std::size_t bytes() const { return *bytes_; }

 private:
  std::shared_ptr<std::size_t> bytes_, before_;
};

}  // namespace distdl::tensor
