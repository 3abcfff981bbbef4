// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <distdl/base/checksum.hpp>

// Event files of TensorBoard, as others write them.
namespace distdl::program {

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

inline std::string varint_of(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// An Event with one scalar.
inline std::string event_of(std::uint64_t step, std::string_view tag, float value) {
  const auto text = [](char key, const std::string& inner) { return key + varint_of(inner.size()) + inner; };
  const auto scalar = text('\x0a', std::string(tag)) + '\x15' + bytes_of(value);
  return '\x09' + bytes_of(1.5) + '\x10' + varint_of(step) + text('\x2a', text('\x0a', scalar));
}

inline std::string record_of(const std::string& data) {
  const auto masked = [](std::string_view text) {
    const std::uint32_t sum = crc32c(std::as_bytes(std::span(text)));
    return bytes_of((sum >> 15 | sum << 17) + 0xa282ead8U);
  };
  const auto length = bytes_of(std::uint64_t{data.size()});
  return length + masked(length) + data + masked(data);
}

}  // namespace distdl::program
