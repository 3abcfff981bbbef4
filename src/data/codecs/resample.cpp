// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

/// One row of results from the columns of a row, from result `first` on.
void merge_columns(const std::uint8_t* line, const ResampledAxis& columns, std::size_t first, std::uint8_t* out) {
  for (std::size_t x = first; x < columns.begins.size(); ++x) {
    const std::int32_t* const weights = columns.weights.data() + static_cast<std::int64_t>(x) * columns.taps;
    const std::uint8_t* pixel = line + columns.begins[x] * 3;
    std::int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (std::int64_t k = 0; k < columns.lengths[x]; ++k, pixel += 3) {
      red += weights[k] * pixel[0];
      green += weights[k] * pixel[1];
      blue += weights[k] * pixel[2];
    }
    out[3 * x] = to_byte(red);
    out[3 * x + 1] = to_byte(green);
    out[3 * x + 2] = to_byte(blue);
  }
}

#if defined(__x86_64__)
/// Weights of the columns for two pixels at once: four times the one of the first, four times the other's.
struct PairedWeights {
  explicit PairedWeights(const ResampledAxis& columns) {
    pairs = (*std::max_element(columns.lengths.begin(), columns.lengths.end()) + 1) / 2;
    values.reserve(columns.lengths.size() * static_cast<std::size_t>(pairs * 8));
    const std::int32_t* weights = columns.weights.data();
    for (const std::int64_t length : columns.lengths) {
      for (std::int64_t k = 0; k < 2 * pairs; ++k) values.insert(values.end(), 4, k < length ? weights[k] : 0);
      weights += columns.taps;
    }
  }
  std::int64_t pairs = 0;            ///< that each result reads
  std::vector<std::int32_t> values;  ///< 8 for each pair
};

/// Two pixels at once, those that a result needs and perhaps one more with the weight 0. Returns the results that it
/// has written: not the last ones, if it would read behind `end`.
[[gnu::target("avx2")]] std::size_t merge_columns_avx2(const std::uint8_t* line, const std::uint8_t* end,
                                                       const ResampledAxis& columns, const PairedWeights& paired,
                                                       std::uint8_t* out) {
  constexpr int kRead = 8;  // bytes, of which the first 6 are two pixels
  const __m128i apart = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i low_bytes = _mm_setr_epi8(0, 4, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const std::int64_t pairs = paired.pairs;
  const std::int32_t* weights = paired.values.data();
  std::size_t x = 0;
  for (const std::size_t count = columns.begins.size(); x < count; ++x, out += 3) {
    const std::uint8_t* pixel = line + columns.begins[x] * 3;
    if (end - pixel < (pairs - 1) * 6 + kRead) break;
    __m256i sums = _mm256_setr_epi32(kHalf, kHalf, kHalf, kHalf, 0, 0, 0, 0);
    for (std::int64_t k = 0; k < pairs; ++k, pixel += 6, weights += 8) {
      const __m128i bytes = _mm_shuffle_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixel)), apart);
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
      sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), both));
    }
    const __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i inside =
        _mm_min_epi32(_mm_max_epi32(_mm_srai_epi32(sum, kBits), _mm_setzero_si128()), _mm_set1_epi32(255));
    const auto colours = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_shuffle_epi8(inside, low_bytes)));
    std::memcpy(out, &colours, 3);
  }
  return x;
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

/// One row from the columns of each of `count` rows of `pixels` pixels, likewise.
void merge_all_columns(const std::uint8_t* line, std::int64_t pixels, std::int64_t count,
                       [[maybe_unused]] const std::uint8_t* end, const ResampledAxis& columns, std::uint8_t* out) {
#if defined(__x86_64__)
  const PairedWeights paired(columns);
#endif
  for (std::int64_t y = 0; y < count; ++y, line += pixels * 3, out += columns.begins.size() * 3) {
    std::size_t done = 0;
#if defined(__x86_64__)
    if (has_avx2()) done = merge_columns_avx2(line, end, columns, paired, out);
#endif
    merge_columns(line, columns, done, out);
  }
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
  merge_all_columns(rgb.data() + ((rows.from - top) * width - left) * 3, width, rows.to - rows.from,
                    rgb.data() + rgb.size(), columns, between.data());
  out.resize(stride * high);
  std::vector<std::int32_t> sums(stride);
  for (std::size_t y = 0; y < high; ++y)
    merge(between.data() + static_cast<std::size_t>(rows.begins[y] - rows.from) * stride, stride,
          rows.weights.data() + static_cast<std::int64_t>(y) * rows.taps, rows.lengths[y], sums.data(),
          out.data() + y * stride);
}

}  // namespace distdl::data
