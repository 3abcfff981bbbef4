// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace distdl::kernels::host {

#if defined(__x86_64__)
template <class Loop>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), gnu::flatten]] void with_avx512(const Loop& loop) {
  loop();
}
inline bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}
#endif

/// Runs loop(), compiled for the widest vectors of the processor. All functions that it calls are inlined, and the
/// order of its sums does not depend on the width (no contraction, no reassociation). The bits are the same on all
/// processors.
template <class Loop>
void vectorized(const Loop& loop) {
#if defined(__x86_64__)
  if (has_avx512()) return with_avx512(loop);
#endif
  loop();
}

/// Merges value(0) ... value(count - 1) in lanes, so that the compiler uses vectors; count >= 0.
template <class Value, class Merge>
float merged(std::int64_t count, float start, Value&& value, Merge&& merge) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  lanes.fill(start);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = merge(lanes[lane], value(i + lane));
  for (; i < count; ++i) lanes[i % kLanes] = merge(lanes[i % kLanes], value(i));
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] = merge(lanes[lane], lanes[lane + half]);
  return lanes[0];
}
template <class Value>
float sum_of(std::int64_t count, Value&& value) {
  return merged(count, 0.0f, value, [](float a, float b) { return a + b; });
}
/// The largest of numbers without NaN; minus infinity if there are none.
template <class Value>
float largest_of(std::int64_t count, Value&& value) {
  return merged(count, -std::numeric_limits<float>::infinity(), value, [](float a, float b) { return a < b ? b : a; });
}

}  // namespace distdl::kernels::host
