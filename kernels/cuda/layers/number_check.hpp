// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/layers/number_fault.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>

namespace distdl::kernels::cuda {

/// Numbers from outside that are classes or rows of a table.
struct Numbers {
  const std::int32_t* data;
  std::int64_t count;
  std::int32_t limit;  ///< valid numbers are 0 .. limit - 1
  bool has_ignored = false;
  std::int32_t ignored = 0;  ///< also valid if has_ignored
  DISTDL_HOST_DEVICE bool is_ignored(std::int32_t number) const { return has_ignored && number == ignored; }
  DISTDL_HOST_DEVICE bool is_valid(std::int32_t number) const { return 0 <= number && number < limit; }
};

/// One row: reports the first invalid number, unless an earlier fault has not been read yet.
struct ReportFirstFault {
  Numbers numbers;
  NumberFault::Of of;
  NumberFault* fault;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t, const Lanes& lanes) const {
    const std::int64_t first = lanes.reduce(
        numbers.count, numbers.count,
        [&](std::int64_t& best, std::int64_t j) {
          const std::int32_t number = numbers.data[j];
          if (j < best && !numbers.is_valid(number) && !numbers.is_ignored(number)) best = j;
        },
        [](std::int64_t a, std::int64_t b) { return a < b ? a : b; });
    if (first == numbers.count) return;
    lanes.once([&] {
      if (fault->of == NumberFault::Of::nothing) *fault = {of, numbers.data[first], numbers.limit, first};
    });
  }
};

class Device;

/// Makes Device::wait() throw for the first invalid number.
void check_numbers(const Device& device, const Numbers& numbers, NumberFault::Of of);

}  // namespace distdl::kernels::cuda
