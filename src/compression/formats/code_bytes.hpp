// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

// The parts of a code: arrays that begin at multiples of 4 bytes.
namespace distdl::compression {

constexpr std::size_t quotient(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

constexpr std::size_t aligned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 4;
  return quotient(bytes, kAlignment) * kAlignment;
}

template <class T>
T* as(std::byte* bytes) {
  return reinterpret_cast<T*>(bytes);
}
template <class T>
const T* as(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

/// The bytes after the last element.
inline void clear_gap(std::byte* code, std::size_t used, std::size_t all) {
  std::memset(code + used, 0, all - used);
}

}  // namespace distdl::compression
