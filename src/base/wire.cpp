// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include <distdl/base/wire.hpp>

namespace distdl {

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

void WireMessage::append_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void WireMessage::begin(int field, Type type) {
  append_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

WireMessage& WireMessage::number(int field, std::uint64_t value) {
  begin(field, Type::varint);
  append_varint(value);
  return *this;
}

WireMessage& WireMessage::real(int field, double value) {
  begin(field, Type::bits_64);
  bytes_ += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

WireMessage& WireMessage::real_32(int field, float value) {
  begin(field, Type::bits_32);
  bytes_ += little_endian(std::bit_cast<std::uint32_t>(value), 4);
  return *this;
}

WireMessage& WireMessage::text(int field, std::string_view value) {
  announce(field, value.size());
  bytes_ += value;
  return *this;
}

WireMessage& WireMessage::announce(int field, std::uint64_t bytes) {
  begin(field, Type::length);
  append_varint(bytes);
  return *this;
}

WireMessage& WireMessage::reals(int field, std::span<const double> values) {
  announce(field, 8 * values.size());
  for (const double value : values) bytes_ += little_endian(std::bit_cast<std::uint64_t>(value), 8);
  return *this;
}

}  // namespace distdl
