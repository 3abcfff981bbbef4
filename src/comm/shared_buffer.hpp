// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace distdl::comm {

/// Zeroed memory of Communicator::allocate(), at an address aligned to a page.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(std::byte* data, std::size_t bytes, std::function<void()> release)
      : data_(data), bytes_(bytes), owner_(nullptr, [release = std::move(release)](void*) { release(); }) {}
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::shared_ptr<void> owner_;
};

}  // namespace distdl::comm
