// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/base/philox.hpp>
#include <distdl/compression/loops/loops.hpp>
#include <distdl/compression/low_rank.hpp>

namespace distdl::compression {
namespace {
constexpr std::uint64_t kSeed = 0x706F776572;  ///< seed of the first factors

/// The vectors of a factor.
std::span<float> vector_of(std::span<float> factor, std::size_t rank, std::size_t k) {
  const std::size_t length = factor.size() / rank;
  return factor.subspan(k * length, length);
}

float norm_of(std::span<const float> vector) {
  return std::sqrt(loops().dot(vector.data(), vector.data(), vector.size()));
}
}  // namespace

MatrixShape matrix_of(const tensor::Shape& shape) {
  if (shape.size() < 2 || shape[0] == 0) return {};
  const auto rows = static_cast<std::size_t>(shape[0]);
  return {rows, static_cast<std::size_t>(tensor::element_count(shape)) / rows};
}

bool is_worth_factors(const MatrixShape& shape, std::size_t rank) {
  return std::min(shape.rows, shape.columns) > rank && 2 * shape.factors(rank) <= shape.count();
}

void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left) {
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t k = 0; k * shape.columns < right.size(); ++k)
      left[k * shape.rows + row] =
          loops().dot(matrix.data() + row * shape.columns, right.data() + k * shape.columns, shape.columns);
}

void orthonormalize(std::span<float> left, std::size_t rank) {
  constexpr float kNothing = 1e-5F;  // fraction of a vector's norm, which is rounding then
  for (std::size_t k = 0; k < rank; ++k) {
    const auto vector = vector_of(left, rank, k);
    const float before = norm_of(vector);
    for (std::size_t other = 0; other < k; ++other) {
      const auto base = vector_of(left, rank, other);
      loops().add_scaled(vector.data(), base.data(), -loops().dot(base.data(), vector.data(), vector.size()),
                         vector.size());
    }
    const float norm = norm_of(vector);
    const float inverse = norm <= kNothing * before ? 0 : 1 / norm;
    for (float& value : vector) value = inverse == 0 ? 0 : value * inverse;
  }
}

void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> left,
                         std::span<float> right) {
  std::ranges::fill(right, 0.0F);
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t k = 0; k * shape.columns < right.size(); ++k)
      loops().add_scaled(right.data() + k * shape.columns, matrix.data() + row * shape.columns,
                         left[k * shape.rows + row], shape.columns);
}

void add_product(std::span<float> matrix, const MatrixShape& shape, std::span<const float> left,
                 std::span<const float> right, float by) {
  for (std::size_t row = 0; row < shape.rows; ++row)
    for (std::size_t k = 0; k * shape.columns < right.size(); ++k)
      loops().add_scaled(matrix.data() + row * shape.columns, right.data() + k * shape.columns,
                         by * left[k * shape.rows + row], shape.columns);
}

void replace_zeros(std::span<float> right, std::size_t rank, std::uint64_t key) {
  for (std::size_t k = 0; k < rank; ++k) {
    const auto vector = vector_of(right, rank, k);
    if (std::ranges::any_of(vector, [](float value) { return value != 0; })) continue;
    for (std::size_t i = 0; i < vector.size(); ++i)
      vector[i] = Philox::uniform(Philox::block(kSeed, key + k, i)[0]) - 0.5F;
  }
}

}  // namespace distdl::compression
