// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/compression/low_rank.hpp>

namespace distdl::compression {
namespace {
/// Of rank 2, with 9 columns.
std::vector<float> matrix(std::size_t rows, std::size_t columns) {
  std::vector<float> m(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      m[i * columns + j] = std::sin(static_cast<float>(i)) * static_cast<float>(j) +
                           std::cos(static_cast<float>(i * 3)) * std::cos(static_cast<float>(j));
  return m;
}

TEST(LowRank, FindsAMatrixOfThatRank) {
  const MatrixShape shape{40, 9};
  for (const std::size_t rank : {1, 2, 4}) {
    auto rest = matrix(shape.rows, shape.columns);
    std::vector<float> right(rank * shape.columns), left(rank * shape.rows);
    replace_zeros(right, rank, 7);
    for (int step = 0; step < 3; ++step) {  // each begins with the last one's factor
      multiply(rest, shape, right, left);
      orthonormalize(left, rank);
      multiply_transposed(rest, shape, left, right);
    }
    add_product(rest, shape, left, right, -1);
    float most = 0;
    for (const float value : rest) most = std::max(most, std::abs(value));
    if (rank == 1)
      EXPECT_GT(most, 0.1F);
    else
      EXPECT_LT(most, 1e-4F);
    for (const float value : left) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(LowRank, AMatrixOfZerosHasFactorsOfZerosWhichAreReplaced) {
  const MatrixShape shape{20, 10};
  const std::vector<float> zeros(shape.count());
  std::vector<float> right(2 * shape.columns), left(2 * shape.rows), again(right.size());
  replace_zeros(right, 2, 1);
  again = right;
  multiply(zeros, shape, right, left);
  orthonormalize(left, 2);
  multiply_transposed(zeros, shape, left, right);
  EXPECT_EQ(left, std::vector<float>(left.size()));
  EXPECT_EQ(right, std::vector<float>(right.size()));
  replace_zeros(right, 2, 1);
  EXPECT_EQ(right, again);
  EXPECT_NE(right[0], 0);
}

TEST(LowRank, TakesMatricesThatAreWorthIt) {
  EXPECT_EQ(matrix_of({64, 3, 5, 5}).columns, 75U);
  EXPECT_EQ(matrix_of({10}).count(), 0U);
  EXPECT_TRUE(is_worth_factors(matrix_of({64, 75}), 4));
  EXPECT_FALSE(is_worth_factors(matrix_of({64, 4}), 4));
  EXPECT_FALSE(is_worth_factors(matrix_of({10, 64}), 5));
  EXPECT_FALSE(is_worth_factors(matrix_of({100}), 1));
}
}  // namespace
}  // namespace distdl::compression
