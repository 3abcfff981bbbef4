// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/capi/distdl.h>
#include <distdl/capi/library/wide_integers.hpp>

namespace distdl::capi {
namespace {

template <class T>
void widen(const void* from, std::vector<std::int32_t>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i * sizeof value, sizeof value);
    to[i] = value;  // NOLINT(bugprone-signed-char-misuse): a number of 8 bits
  }
}

template <class T>
void cut(const std::vector<std::int32_t>& from, void* to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto value = static_cast<T>(from[i]);
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof value, &value, sizeof value);
  }
}

void make_truths(std::vector<std::int32_t>& values) {
  for (std::int32_t& value : values) value = value != 0;
}

}  // namespace

WideIntegers::WideIntegers(int type, const void* values, std::size_t count, std::size_t result_count)
    : type_(type), values_(count), result_(result_count) {
  if (type == DISTDL_I16)
    widen<std::int16_t>(values, values_);
  else if (type == DISTDL_I8)
    widen<std::int8_t>(values, values_);
  else
    widen<std::uint8_t>(values, values_);
  if (type == DISTDL_BOOL) make_truths(values_);
}

void WideIntegers::narrow(void* to) const {
  if (type_ == DISTDL_I16) return cut<std::int16_t>(result_, to);
  if (type_ != DISTDL_BOOL) return cut<std::uint8_t>(result_, to);
  auto truths = result_;
  make_truths(truths);
  cut<std::uint8_t>(truths, to);
}

}  // namespace distdl::capi
