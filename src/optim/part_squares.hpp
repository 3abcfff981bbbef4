// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The sum of the squares of the gradients of a whole model, of which each rank holds a part, with the bits that one
/// rank with all of it would get (Optimizer). The ranks exchange sums of short pieces, and the gradients themselves of
/// those few pieces that lie on a border of two parts.
class PartSquares {
 public:
  /// `borders`: where in the whole arena the parts begin, ascending from 0. `part`: which of them is here; its arena
  /// begins with it. `backend` must outlive this object.
  PartSquares(const tensor::ArenaLayout& whole, std::span<const std::size_t> borders, std::size_t part,
              kernels::Backend& backend);

  /// Numbers to exchange: the same on all ranks.
  std::size_t count() const { return count_; }
  /// Writes this rank's numbers, and 0 for those of others.
  void write(const float* gradients, std::span<double> numbers);
  /// The sum from the sums of all ranks' numbers.
  double sum(std::span<const double> numbers);

 private:
  struct Piece {
    Elements elements;       ///< of the whole arena
    std::size_t at = 0;      ///< place of its numbers
    bool on_border = false;  ///< its numbers are gradients, else their sum
  };

  kernels::Backend& backend_;
  Elements own_;
  std::vector<std::vector<Piece>> ranges_;  ///< the pieces of each range of the whole arena
  std::size_t count_ = 0;
};

}  // namespace distdl::optim
