// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <distdl/tensor/shape.hpp>

// PowerSGD (Vogels et al., NeurIPS 2019): a matrix M (rows x columns) as the product of two factors of few ranks, found
// by one step of a power iteration that begins with the factor of the step before. Factors lie rank by rank: left as
// (rank, rows), right as (rank, columns).
namespace distdl::compression {

struct MatrixShape {
  std::size_t rows = 0, columns = 0;
  std::size_t count() const { return rows * columns; }
  /// The elements of both factors.
  std::size_t factors(std::size_t rank) const { return rank * (rows + columns); }
};

/// A tensor as a matrix: the first extent are its rows, the others together its columns.
MatrixShape matrix_of(const tensor::Shape& shape);
/// Whether factors of this rank have at most half of the matrix' elements, and both extents are above the rank.
bool is_worth_factors(const MatrixShape& shape, std::size_t rank);

/// left = M right^T.
void multiply(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> right,
              std::span<float> left);
/// Makes the `rank` vectors orthonormal, one after the other. One that is 0 without those before it becomes 0.
void orthonormalize(std::span<float> left, std::size_t rank);
/// right = left^T M.
void multiply_transposed(std::span<const float> matrix, const MatrixShape& shape, std::span<const float> left,
                         std::span<float> right);
/// matrix += by * left right.
void add_product(std::span<float> matrix, const MatrixShape& shape, std::span<const float> left,
                 std::span<const float> right, float by);
/// Random numbers in place of vectors that are 0, from which no power iteration comes away. `key` says which.
void replace_zeros(std::span<float> right, std::size_t rank, std::uint64_t key);

}  // namespace distdl::compression
