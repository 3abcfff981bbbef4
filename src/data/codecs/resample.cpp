// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include <distdl/data/codecs/resample.hpp>

namespace distdl::data {
namespace {
/// Pillow rounds in this way: it adds 0.5 and cuts off the fraction.
std::int64_t cut(double value) {
  return static_cast<std::int64_t>(value);
}

constexpr int kBits = 22;  // of the fraction of weights
constexpr std::int32_t kHalf = 1 << (kBits - 1);

inline std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

/// One row of results from `length` rows: the loop over the row is the one that the compiler turns into vectors.
[[gnu::always_inline]] inline void merge_rows(const std::uint8_t* rows, std::size_t stride, const std::int32_t* weights,
                                              std::int64_t length, std::int32_t* sums, std::uint8_t* out) {
  std::fill_n(sums, stride, kHalf);
  for (std::int64_t k = 0; k < length; ++k, rows += stride) {
    const std::int32_t weight = weights[k];
    for (std::size_t i = 0; i < stride; ++i) sums[i] += weight * rows[i];
  }
  for (std::size_t i = 0; i < stride; ++i) out[i] = to_byte(sums[i]);
}

/// One row of results from the columns of a row.
void merge_columns(const std::uint8_t* line, const ResampledAxis& columns, std::uint8_t* out) {
  const std::int32_t* weights = columns.weights.data();
  for (std::size_t x = 0; x < columns.begins.size(); ++x, out += 3, weights += columns.taps) {
    const std::uint8_t* pixel = line + columns.begins[x] * 3;
    std::int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (std::int64_t k = 0; k < columns.lengths[x]; ++k, pixel += 3) {
      red += weights[k] * pixel[0];
      green += weights[k] * pixel[1];
      blue += weights[k] * pixel[2];
    }
    out[0] = to_byte(red);
    out[1] = to_byte(green);
    out[2] = to_byte(blue);
  }
}

#if defined(__x86_64__)
using FourBytes = std::uint8_t __attribute__((vector_size(4)));
using FourNumbers = std::int32_t __attribute__((vector_size(16)));

/// The colours of a pixel at once. It reads a byte behind the last pixel.
[[gnu::target("avx2")]] void merge_columns_avx2(const std::uint8_t* line, const ResampledAxis& columns,
                                                std::uint8_t* out) {
  const std::int32_t* weights = columns.weights.data();
  for (std::size_t x = 0; x < columns.begins.size(); ++x, out += 3, weights += columns.taps) {
    const std::uint8_t* pixel = line + columns.begins[x] * 3;
    FourNumbers sums{kHalf, kHalf, kHalf, kHalf};
    for (std::int64_t k = 0; k < columns.lengths[x]; ++k, pixel += 3) {
      FourBytes colours{};
      std::memcpy(&colours, pixel, sizeof colours);
      sums += weights[k] * __builtin_convertvector(colours, FourNumbers);
    }
    for (int c = 0; c < 3; ++c) out[c] = to_byte(sums[c]);
  }
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

[[gnu::target("avx2"), gnu::flatten]] void merge_rows_avx2(const std::uint8_t* rows, std::size_t stride,
                                                           const std::int32_t* weights, std::int64_t length,
                                                           std::int32_t* sums, std::uint8_t* out) {
  merge_rows(rows, stride, weights, length, sums, out);
}
#endif

/// Gives the same bytes on any processor, because all numbers are whole.
void merge(const std::uint8_t* rows, std::size_t stride, const std::int32_t* weights, std::int64_t length,
           std::int32_t* sums, std::uint8_t* out) {
#if defined(__x86_64__)
  if (has_avx2()) return merge_rows_avx2(rows, stride, weights, length, sums, out);
#endif
  merge_rows(rows, stride, weights, length, sums, out);
}

/// One row from the columns of a row, likewise. `is_last`: nothing may be read behind the row.
void resample_row(const std::uint8_t* line, const ResampledAxis& columns, [[maybe_unused]] bool is_last,
                  std::uint8_t* out) {
#if defined(__x86_64__)
  if (!is_last && has_avx2()) return merge_columns_avx2(line, columns, out);
#endif
  merge_columns(line, columns, out);
}
}  // namespace

ResampledAxis::ResampledAxis(double begin, double extent, std::int64_t resized, std::int64_t first,
                             std::int64_t count) {
  const auto origin = static_cast<std::int64_t>(std::floor(begin));
  const auto size = static_cast<std::int64_t>(std::ceil(begin + extent)) - origin;
  const double start = begin - static_cast<double>(origin), scale = extent / static_cast<double>(resized);
  const double support = std::max(scale, 1.0), slope = 1.0 / support;
  taps = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  weights.resize(static_cast<std::size_t>(taps * count));
  std::vector<double> exact(static_cast<std::size_t>(taps));
  from = origin + size;
  for (std::int64_t i = 0; i < count; ++i) {
    const double center = start + (static_cast<double>(first + i) + 0.5) * scale;
    const std::int64_t low = std::max<std::int64_t>(0, cut(center - support + 0.5));
    const std::int64_t high = std::min(size, cut(center + support + 0.5));
    double sum = 0;
    for (std::int64_t x = low; x < high; ++x) {
      const double distance = std::abs((static_cast<double>(x) - center + 0.5) * slope);
      sum += exact[static_cast<std::size_t>(x - low)] = distance < 1.0 ? 1.0 - distance : 0.0;
    }
    for (std::int64_t x = low; x < high; ++x) {
      const double weight = exact[static_cast<std::size_t>(x - low)] / (sum != 0.0 ? sum : 1.0);
      weights[static_cast<std::size_t>(i * taps + x - low)] =
          static_cast<std::int32_t>(cut(0.5 + weight * static_cast<double>(1 << kBits)));
    }
    begins.push_back(origin + low);
    lengths.push_back(high - low);
    from = std::min(from, origin + low);
    to = std::max(to, origin + high);
  }
}

void resample(std::span<const std::uint8_t> rgb, std::int64_t left, std::int64_t top, std::int64_t width,
              const ResampledAxis& columns, const ResampledAxis& rows, std::vector<std::uint8_t>& between,
              std::vector<std::uint8_t>& out) {
  const std::size_t wide = columns.begins.size(), high = rows.begins.size(), stride = wide * 3;
  between.resize(stride * static_cast<std::size_t>(rows.to - rows.from));
  std::uint8_t* to = between.data();
  for (std::int64_t y = rows.from; y < rows.to; ++y, to += stride) {
    const std::uint8_t* const line = rgb.data() + ((y - top) * width - left) * 3;
    resample_row(line, columns, y + 1 == rows.to, to);
  }
  out.resize(stride * high);
  std::vector<std::int32_t> sums(stride);
  for (std::size_t y = 0; y < high; ++y)
    merge(between.data() + static_cast<std::size_t>(rows.begins[y] - rows.from) * stride, stride,
          rows.weights.data() + static_cast<std::int64_t>(y) * rows.taps, rows.lengths[y], sums.data(),
          out.data() + y * stride);
}

}  // namespace distdl::data
