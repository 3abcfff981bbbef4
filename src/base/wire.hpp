// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace distdl {

/// A message of Protocol Buffers as bytes (https://protobuf.dev/programming-guides/encoding). Fields are written in the
/// order of the calls. Only what event files of TensorBoard, run files of W&B and ONNX models need: there is no reader,
/// and so no compiler of .proto files and no library.
class WireMessage {
 public:
  /// int32, int64 (a negative one converted), bool, enum.
  WireMessage& number(int field, std::uint64_t value);
  WireMessage& real(int field, double value);            ///< double
  WireMessage& real_32(int field, float value);          ///< float
  WireMessage& text(int field, std::string_view value);  ///< string, bytes
  WireMessage& message(int field, const WireMessage& value) { return text(field, value.bytes_); }
  /// Begins a field of so many bytes, which the caller writes behind bytes().
  WireMessage& announce(int field, std::uint64_t bytes);
  WireMessage& reals(int field, std::span<const double> values);  ///< repeated double, packed

  const std::string& bytes() const { return bytes_; }

 private:
  enum class Type { varint = 0, bits_64 = 1, length = 2, bits_32 = 5 };
  void begin(int field, Type type);
  void append_varint(std::uint64_t value);

  std::string bytes_;
};

/// `bytes` bytes, the lowest first.
std::string little_endian(std::uint64_t value, int bytes);

}  // namespace distdl
