// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/arena_ranges.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// Elements of a whole arena that a rank has, from element `at` of its own arena on.
struct HeldElements {
  Elements elements;
  std::size_t at = 0;
};

/// The sum of the squares of the gradients of a whole model, of which each rank holds a part, with the bits that one
/// rank with all of it would get (Optimizer). The ranks exchange sums of short pieces, and the gradients themselves of
/// those few pieces that lie on a border of two parts. Where layers are divided into shards, no piece does.
class PartSquares {
 public:
  /// `borders`: where in the whole arena the parts of several layers begin, ascending from 0. `held`: what is here;
  /// each other element is on one other rank. `backend` must outlive this object.
  PartSquares(const tensor::ArenaLayout& whole, std::span<const std::size_t> borders,
              const std::vector<HeldElements>& held, kernels::Backend& backend);

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

  /// Gradients of a piece on a border that are here.
  struct Gradients {
    std::size_t from, count, at;  ///< in the own arena; of them; in the numbers
  };
  void find_own(const Piece& piece, const std::vector<HeldElements>& held);

  kernels::Backend& backend_;
  std::vector<kernels::ArenaRange> own_pieces_;  ///< of this rank's arena
  std::vector<std::size_t> places_;              ///< of their sums in the numbers
  std::vector<Gradients> own_gradients_;
  std::vector<std::vector<Piece>> ranges_;  ///< the pieces of each range of the whole arena
  std::size_t count_ = 0;
};

}  // namespace distdl::optim
