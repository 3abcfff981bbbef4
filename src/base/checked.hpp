// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <limits>
#include <string_view>

#include <distdl/base/errors.hpp>

/// Arithmetic on sizes and counts from outside: job files, command lines, headers of files. If a result does not fit
/// its type, these functions throw ConfigError that names `what`.
namespace distdl {

template <std::integral T>
T checked_product(T a, T b, std::string_view what) {
  T result{};
  require(!__builtin_mul_overflow(a, b, &result), "{} would be {} * {}, but the largest possible number is {}", what, a,
          b, std::numeric_limits<T>::max());
  return result;
}

template <std::integral T>
T checked_sum(T a, T b, std::string_view what) {
  T result{};
  require(!__builtin_add_overflow(a, b, &result), "{} would be {} + {}, but the largest possible number is {}", what, a,
          b, std::numeric_limits<T>::max());
  return result;
}

}  // namespace distdl
