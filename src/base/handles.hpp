// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace distdl {

/// Owns one handle of a C library. `Close` is called once, unless the handle is `Null`. Example: using File =
/// UniqueHandle<hid_t, &close_file, hid_t{-1}>;
template <class T, auto Close, T Null = T{}>
class UniqueHandle {
 public:
  UniqueHandle() noexcept = default;
  explicit UniqueHandle(T handle) noexcept : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept : handle_(other.release()) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  T get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != Null; }
  T release() noexcept { return std::exchange(handle_, Null); }
  void reset(T handle = Null) noexcept {
    T old = std::exchange(handle_, handle);
    if (old != Null) Close(old);
  }

 private:
  T handle_ = Null;
};

}  // namespace distdl
