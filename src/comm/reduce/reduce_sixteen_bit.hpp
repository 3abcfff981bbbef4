// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/reduce/reduce_loops.hpp>

namespace distdl::comm {

/// Sums of 16-bit floating point values with a processor's own conversions, which compilers do not generate from plain
/// loops. Format has Floats (a vector of kLanes floats), widen() from and narrow() to kLanes values in memory, and
/// Plain, the format as a type of Loops, for the remaining elements. As with ReduceLoops, Format is another type in
/// each source file.
template <class Loops, class Format>
struct SixteenBitLoops {
  using Floats = typename Format::Floats;
  using Plain = typename Format::Plain;
  static constexpr std::size_t kLanes = Format::kLanes;
  static constexpr std::size_t kBytes = 2 * kLanes;

  template <class Value>
  static void store(char* first, char* second, std::size_t offset, Value value) {
    __builtin_memcpy(first + offset, &value, kBytes);
    __builtin_memcpy(second + offset, &value, kBytes);
  }

  template <bool scaled>
  static void reduce(void* first, void* second, const void* left, const void* right, std::size_t count, double by) {
    auto* const t = static_cast<char*>(first);
    auto* const u = static_cast<char*>(second ? second : first);
    const auto* const a = static_cast<const char*>(left);
    const auto* const b = static_cast<const char*>(right);
    const auto factor = static_cast<float>(by);
    std::size_t at = 0;
    for (; at + kBytes <= 2 * count; at += kBytes) {
      auto sum = Format::narrow(Format::widen(a + at) + Format::widen(b + at));
      if constexpr (scaled) sum = Format::narrow(Format::widen(&sum) * factor);
      store(t, u, at, sum);
    }
    using Operation = typename Loops::template SumOrScaled<scaled, Plain>;
    Loops::template reduce<Plain, Operation>(t + at, u + at, a + at, b + at, count - at / 2, by);
  }

  static void scale(void* first, void* second, const void* source, std::size_t count, double by) {
    auto* const t = static_cast<char*>(first);
    auto* const u = static_cast<char*>(second ? second : first);
    const auto* const a = static_cast<const char*>(source);
    const auto factor = static_cast<float>(by);
    std::size_t at = 0;
    for (; at + kBytes <= 2 * count; at += kBytes) store(t, u, at, Format::narrow(Format::widen(a + at) * factor));
    Loops::template scale<Plain>(t + at, u + at, a + at, count - at / 2, by);
  }

  static constexpr void replace(ReduceKernels& kernels, DataType type) {
    const int t = static_cast<int>(type);
    kernels.reduce[t][static_cast<int>(Reduction::sum)] = &reduce<false>;
    kernels.scaled_sum[t] = &reduce<true>;
    kernels.scale[t] = &scale;
  }
};

}  // namespace distdl::comm
