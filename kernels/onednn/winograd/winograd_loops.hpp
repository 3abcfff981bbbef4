// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/onednn/winograd/loops.hpp>

namespace distdl::kernels::onednn::winograd {

template <std::int64_t kLanes>
struct Vector {
  using Floats [[gnu::vector_size(kLanes * sizeof(float))]] = float;
};

/// The transforms along one direction. Each takes and gives an array of vectors.
template <class Processor, int kSide>
struct Transform;

template <class Processor>
struct Transform<Processor, 2> {
  static constexpr int kPoints = 4;
  template <class T>
  static void input(const T* d, T* t) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
  }
  template <class T>
  static void weights(const T* g, T* t) {
    const T even = (g[0] + g[2]) * 0.5F, odd = g[1] * 0.5F;
    t[0] = g[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = g[2];
  }
  template <class T>
  static void output(const T* t, T* y) {
    y[0] = t[0] + t[1] + t[2];
    y[1] = t[1] - t[2] + t[3];
  }
  template <class T>
  static void transposed_output(const T* y, T* t) {
    t[0] = y[0];
    t[1] = y[0] + y[1];
    t[2] = y[0] - y[1];
    t[3] = y[1];
  }
  template <class T>
  static void transposed_weights(const T* t, T* g) {
    const T even = (t[1] + t[2]) * 0.5F;
    g[0] = t[0] + even;
    g[1] = (t[1] - t[2]) * 0.5F;
    g[2] = even + t[3];
  }
};

template <class Processor>
struct Transform<Processor, 4> {
  static constexpr int kPoints = 6;
  // The points 0, +-kA, +-kB and infinity; kA * kB = 1.
  static constexpr float kA = 0.70710678118654752440F, kB = 1.41421356237309504880F;
  static constexpr float kA2 = 0.5F, kB2 = 2, kA3 = kA * kA2, kB3 = kB * kB2, kSum = kA2 + kB2;
  static constexpr float kByA = 1 / (2 * kA2 * (kA2 - kB2)), kByB = 1 / (2 * kB2 * (kB2 - kA2));
  template <class T>
  static void input(const T* d, T* t) {
    const T even_a = d[4] - kB2 * d[2], odd_a = kA * (d[3] - kB2 * d[1]);
    const T even_b = d[4] - kA2 * d[2], odd_b = kB * (d[3] - kA2 * d[1]);
    t[0] = d[0] - kSum * d[2] + d[4];
    t[1] = even_a + odd_a;
    t[2] = even_a - odd_a;
    t[3] = even_b + odd_b;
    t[4] = even_b - odd_b;
    t[5] = d[1] - kSum * d[3] + d[5];
  }
  template <class T>
  static void weights(const T* g, T* t) {
    const T even_a = kByA * g[0] + (kByA * kA2) * g[2], odd_a = (kByA * kA) * g[1];
    const T even_b = kByB * g[0] + (kByB * kB2) * g[2], odd_b = (kByB * kB) * g[1];
    t[0] = g[0];
    t[1] = even_a + odd_a;
    t[2] = even_a - odd_a;
    t[3] = even_b + odd_b;
    t[4] = even_b - odd_b;
    t[5] = g[2];
  }
  template <class T>
  static void output(const T* t, T* y) {
    const T sum_a = t[1] + t[2], difference_a = t[1] - t[2], sum_b = t[3] + t[4], difference_b = t[3] - t[4];
    y[0] = t[0] + sum_a + sum_b;
    y[1] = kA * difference_a + kB * difference_b;
    y[2] = kA2 * sum_a + kB2 * sum_b;
    y[3] = kA3 * difference_a + kB3 * difference_b + t[5];
  }
  template <class T>
  static void transposed_output(const T* y, T* t) {
    const T even_a = y[0] + kA2 * y[2], odd_a = kA * y[1] + kA3 * y[3];
    const T even_b = y[0] + kB2 * y[2], odd_b = kB * y[1] + kB3 * y[3];
    t[0] = y[0];
    t[1] = even_a + odd_a;
    t[2] = even_a - odd_a;
    t[3] = even_b + odd_b;
    t[4] = even_b - odd_b;
    t[5] = y[3];
  }
  template <class T>
  static void transposed_weights(const T* t, T* g) {
    const T sum_a = t[1] + t[2], difference_a = t[1] - t[2], sum_b = t[3] + t[4], difference_b = t[3] - t[4];
    g[0] = t[0] + kByA * sum_a + kByB * sum_b;
    g[1] = (kByA * kA) * difference_a + (kByB * kB) * difference_b;
    g[2] = (kByA * kA2) * sum_a + (kByB * kB2) * sum_b + t[5];
  }
};

/// Loops over vectors of the compiler's, compiled once for each kind of processor with a `Processor` type of its own,
/// which has kLanes, kVector (floats of a register) and kRows. None of them may call an inline function of another
/// file: the linker keeps one copy of each, which could be one for another processor.
template <class Processor, int kSide>
struct WinogradLoops {
  static constexpr std::int64_t kLanes = Processor::kLanes, kPanel = 2 * kLanes, kVector = Processor::kVector;
  static constexpr std::int64_t kParts = kPanel / kVector;  ///< registers for a row of a panel
  static constexpr int kRows = Processor::kRows;
  using Way = Transform<Processor, kSide>;
  static constexpr int kPoints = Way::kPoints, kTaps = 3;
  using Floats = typename Vector<kVector>::Floats;

  static void load(Floats& to, const float* from) { __builtin_memcpy(&to, from, sizeof(to)); }
  static void store(float* to, const Floats& from) { __builtin_memcpy(to, &from, sizeof(from)); }

  /// Where the channels of one register lie in images: from the first pixel of an image.
  static std::int64_t channels_at(std::int64_t panel, std::int64_t part, std::int64_t plane) {
    return (panel * 2 + part * kVector / kLanes) * plane + part * kVector % kLanes;
  }

  /// Where a tile lies: the first channel block of its image, and its first pixel of the output.
  struct Place {
    std::int64_t image, row, column;
  };
  static Place place_of(const TileGrid& grid, std::int64_t tile) {
    const std::int64_t tiles = grid.tiles_high * grid.tiles_wide;
    return {tile / tiles, tile % tiles / grid.tiles_wide * kSide, tile % grid.tiles_wide * kSide};
  }

  /// to = T values T^t, where `transform` computes T of an array; values[j][i] is of row i, column j.
  template <int kFrom, int kTo, class OneWay, class Give>
  [[gnu::always_inline]] static void both_ways(const Floats (&values)[kFrom][kFrom], OneWay transform, Give give) {
    Floats columns[kFrom][kTo], row[kFrom], result[kTo];
    for (int j = 0; j < kFrom; ++j) transform(values[j], columns[j]);
    for (int i = 0; i < kTo; ++i) {
      for (int j = 0; j < kFrom; ++j) row[j] = columns[j][i];
      transform(row, result);
      for (int j = 0; j < kTo; ++j) give(i, j, result[j]);
    }
  }

  /// The tile of the input that begins at this row and column, which may lie outside of the image: 0 there.
  [[gnu::always_inline]] static void load_tile(const TileGrid& grid, const float* from, std::int64_t row,
                                               std::int64_t column, Floats (&values)[kPoints][kPoints]) {
    const bool is_inside = row >= 0 && column >= 0 && row + kPoints <= grid.height && column + kPoints <= grid.width;
    for (int i = 0; i < kPoints; ++i)
      for (int j = 0; j < kPoints; ++j) {
        const std::int64_t r = row + i, c = column + j;
        if (is_inside || (r >= 0 && r < grid.height && c >= 0 && c < grid.width))
          load(values[j][i], from + (r * grid.width + c) * kLanes);
        else
          values[j][i] = Floats{};
      }
  }

  static void transform_images(const TileGrid& grid, const float* x, std::int64_t channels, std::int64_t panel,
                               std::int64_t first, std::int64_t count, Transformed to) {
    const std::int64_t plane = grid.height * grid.width * kLanes;
    for (std::int64_t part = 0; part < kParts; ++part) {
      float* const place = to.values + panel * grid.block * kPanel + part * kVector;
      for (std::int64_t t = 0; t < count; ++t) {
        const auto [image, top, left] = place_of(grid, first + t);
        Floats values[kPoints][kPoints];
        load_tile(grid, x + image * (channels / kLanes) * plane + channels_at(panel, part, plane), top - grid.padding,
                  left - grid.padding, values);
        both_ways<kPoints, kPoints>(
            values, [](const Floats* one, Floats* other) { Way::input(one, other); },
            [&](int i, int j, const Floats& value) {
              store(place + t * kPanel + (i * kPoints + j) * to.stride, value);
            });
      }
      for (std::int64_t t = count; t % kRows != 0; ++t)
        for (int point = 0; point < kPoints * kPoints; ++point) store(place + t * kPanel + point * to.stride, Floats{});
    }
  }

  static void transform_gradients(const TileGrid& grid, const float* dy, std::int64_t channels, std::int64_t panel,
                                  std::int64_t first, std::int64_t count, Transformed to) {
    const std::int64_t plane = grid.out_height * grid.out_width * kLanes;
    for (std::int64_t part = 0; part < kParts; ++part)
      for (std::int64_t t = 0; t < count; ++t) {
        const auto [image, row, column] = place_of(grid, first + t);
        const float* const from = dy + image * (channels / kLanes) * plane + channels_at(panel, part, plane);
        float* const place = to.values + (panel * grid.block + t) * kPanel + part * kVector;
        Floats values[kSide][kSide];
        for (int i = 0; i < kSide; ++i)
          for (int j = 0; j < kSide; ++j) {
            values[j][i] = Floats{};
            if (row + i < grid.out_height && column + j < grid.out_width)
              load(values[j][i], from + ((row + i) * grid.out_width + column + j) * kLanes);
          }
        both_ways<kSide, kPoints>(
            values, [](const Floats* one, Floats* other) { Way::transposed_output(one, other); },
            [&](int i, int j, const Floats& value) { store(place + (i * kPoints + j) * to.stride, value); });
      }
  }

  static void transform_weights(const float* weights, std::int64_t out, std::int64_t in, bool turned,
                                std::int64_t panel, Transformed to) {
    constexpr int kAll = kTaps * kTaps;
    const std::int64_t rows = turned ? out : in, lane = turned ? kAll : in * kAll;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t part = 0; part < kParts; ++part) {
        const std::int64_t column = panel * kPanel + part * kVector;
        const float* const from = weights + (turned ? row * in + column : column * in + row) * kAll;
        float lanes[kAll][kVector];
        for (std::int64_t l = 0; l < kVector; ++l)
          for (int tap = 0; tap < kAll; ++tap) lanes[tap][l] = from[l * lane + (turned ? kAll - 1 - tap : tap)];
        Floats values[kTaps][kTaps];
        for (int tap = 0; tap < kAll; ++tap) load(values[tap % kTaps][tap / kTaps], lanes[tap]);
        float* const place = to.values + row * kPanel + part * kVector;
        both_ways<kTaps, kPoints>(
            values, [](const Floats* one, Floats* other) { Way::weights(one, other); },
            [&](int i, int j, const Floats& value) { store(place + (i * kPoints + j) * to.stride, value); });
      }
  }

  /// kRows rows of a panel: to (+)= a times b, where b has `chunks` times `chunk` rows; a's rows lie `row` floats
  /// apart, its columns `column`, its chunks `next`.
  struct Factor {
    const float* values;
    std::int64_t row, column, next, chunk, chunks;
  };
  [[gnu::always_inline]] static void multiply_rows(const Factor& a, const float* b, bool add, float* to) {
    Floats sums[kRows][kParts];
    for (int r = 0; r < kRows; ++r)
      for (int part = 0; part < kParts; ++part) {
        sums[r][part] = Floats{};
        if (add) load(sums[r][part], to + r * kPanel + part * kVector);
      }
    for (std::int64_t chunk = 0; chunk < a.chunks; ++chunk) {
      const float* from = a.values + chunk * a.next;
      for (std::int64_t k = 0; k < a.chunk; ++k, from += a.column, b += kPanel) {
        Floats row[kParts];
        for (int part = 0; part < kParts; ++part) load(row[part], b + part * kVector);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r)
          for (int part = 0; part < kParts; ++part) sums[r][part] += from[r * a.row] * row[part];
      }
    }
    for (int r = 0; r < kRows; ++r)
      for (int part = 0; part < kParts; ++part) store(to + r * kPanel + part * kVector, sums[r][part]);
  }

  static void multiply(Transformed images, std::int64_t block, std::int64_t count, std::int64_t channels,
                       Transformed weights, Transformed to) {
    for (int point = 0; point < kPoints * kPoints; ++point)
      for (std::int64_t t = 0; t < count; t += kRows)
        multiply_rows(
            {images.values + point * images.stride + t * kPanel, kPanel, 1, block * kPanel, kPanel, channels / kPanel},
            weights.values + point * weights.stride, false, to.values + point * to.stride + t * kPanel);
  }

  static void multiply_transposed(Transformed images, std::int64_t block, std::int64_t count, std::int64_t channels,
                                  Transformed gradients, std::int64_t panel, bool add, Transformed to) {
    for (int point = 0; point < kPoints * kPoints; ++point)
      for (std::int64_t c = 0; c < channels; c += kRows)
        multiply_rows(
            {images.values + point * images.stride + c / kPanel * block * kPanel + c % kPanel, 1, kPanel, 0, count, 1},
            gradients.values + point * gradients.stride + panel * block * kPanel, add,
            to.values + point * to.stride + c * kPanel);
  }

  static void restore_images(const TileGrid& grid, Transformed products, std::int64_t channels, std::int64_t panel,
                             std::int64_t first, std::int64_t count, const float* bias, float* y) {
    const std::int64_t plane = grid.out_height * grid.out_width * kLanes;
    for (std::int64_t part = 0; part < kParts; ++part) {
      Floats add{};
      if (bias) load(add, bias + panel * kPanel + part * kVector);
      for (std::int64_t t = 0; t < count; ++t) {
        const Place at = place_of(grid, first + t);  // Clang captures no structured bindings
        const float* const from = products.values + t * kPanel + part * kVector;
        float* const to = y + at.image * (channels / kLanes) * plane + channels_at(panel, part, plane);
        Floats values[kPoints][kPoints];
        for (int i = 0; i < kPoints; ++i)
          for (int j = 0; j < kPoints; ++j) load(values[j][i], from + (i * kPoints + j) * products.stride);
        both_ways<kPoints, kSide>(
            values, [](const Floats* one, Floats* other) { Way::output(one, other); },
            [&](int i, int j, const Floats& value) {
              if (at.row + i < grid.out_height && at.column + j < grid.out_width)
                store(to + ((at.row + i) * grid.out_width + at.column + j) * kLanes, value + add);
            });
      }
    }
  }

  static void restore_weights(Transformed products, std::int64_t in, std::int64_t panel, float* weights) {
    constexpr int kAll = kTaps * kTaps;
    for (std::int64_t row = 0; row < in; ++row)
      for (std::int64_t part = 0; part < kParts; ++part) {
        const float* const from = products.values + row * kPanel + part * kVector;
        float* const to = weights + ((panel * kPanel + part * kVector) * in + row) * kAll;
        Floats values[kPoints][kPoints];
        for (int i = 0; i < kPoints; ++i)
          for (int j = 0; j < kPoints; ++j) load(values[j][i], from + (i * kPoints + j) * products.stride);
        both_ways<kPoints, kTaps>(
            values, [](const Floats* one, Floats* other) { Way::transposed_weights(one, other); },
            [&](int i, int j, const Floats& value) {
              for (std::int64_t l = 0; l < kVector; ++l) to[l * in * kAll + i * std::int64_t{kTaps} + j] = value[l];
            });
      }
  }

  static constexpr Loops all() {
    return {kLanes,
            kRows,
            kSide,
            std::int64_t{kPoints} * kPoints,
            transform_images,
            transform_gradients,
            transform_weights,
            multiply,
            multiply_transposed,
            restore_images,
            restore_weights};
  }
};

template <class Processor>
constexpr LoopsOfProcessor loops_of() {
  return {WinogradLoops<Processor, 4>::all(), WinogradLoops<Processor, 2>::all()};
}

}  // namespace distdl::kernels::onednn::winograd
