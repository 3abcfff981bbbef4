// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/comm/vector.hpp>

namespace distdl::capi {

/// Integers of one or two bytes, and truth values, which are reduced as int32.
class WideIntegers {
 public:
  /// Copies `count` values. type: is_small_integer().
  WideIntegers(int type, const void* values, std::size_t count, std::size_t result_count);
  comm::ConstVector values() const { return {values_.data(), values_.size(), comm::DataType::int32}; }
  comm::Vector result() { return {result_.data(), result_.size(), comm::DataType::int32}; }
  /// Writes the result, modulo 2^bits.
  void narrow(void* to) const;

 private:
  int type_;
  std::vector<std::int32_t> values_, result_;
};

}  // namespace distdl::capi
