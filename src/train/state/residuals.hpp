// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/tensor/buffer.hpp>

// The state of the compression of gradients in checkpoints: a tensor "residual/NAME" of the shape (ranks, shape of
// NAME), of which each rank has its row; and "factor/NAME", which is equal on all ranks.
namespace distdl::train {

/// The row of this rank of so many. They point into the state's memory.
std::vector<checkpoint::Slice> residual_slices(const parallel::CompressionState& state, Rank rank, int ranks);
/// The parts of the factors that writer `index` of `writers` saves; none for -1.
std::vector<checkpoint::Slice> factor_slices(const parallel::CompressionState& state, int index, int writers);

/// What to read of the state of compression, where it was saved by any number of ranks. Of so many ranks as before,
/// each gets its row. Else rank r of R gets the sum of the rows r, r + R, ..., so that the sum of all stays.
class CompressionTargets {
 public:
  /// `ranks`: so many, the first ones, have residuals. `found`: all tensors that were saved. `layout`: of the
  /// parameters. The state becomes zeros.
  CompressionTargets(parallel::CompressionState& state, const tensor::ArenaLayout& layout, Rank rank, int ranks,
                     std::span<const checkpoint::TensorEntry> found);
  /// One without elements is of a tensor that is not wanted here.
  const std::vector<checkpoint::Target>& targets() const { return targets_; }
  /// After the targets were read.
  void finish();
  /// Whether residuals were saved that this state has no place for.
  bool drops_residuals() const { return drops_; }

 private:
  void take_rows(const tensor::TensorView& view, const checkpoint::TensorEntry& entry, Rank rank, int ranks);
  void ignore(const checkpoint::TensorEntry& entry);

  parallel::CompressionState& state_;
  std::vector<checkpoint::Target> targets_;
  std::vector<tensor::Buffer> more_;  ///< arenas of the further rows
  bool drops_ = false;
};

}  // namespace distdl::train
