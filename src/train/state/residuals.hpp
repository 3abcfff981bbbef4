// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
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

/// Tells whether this rank saves what a tensor has; ranks that share a model may have the same tensor.
using SavesTensor = std::function<bool(const std::string& name)>;
/// The slices of this rank's row of residuals, one of `ranks` rows. They point into the state's memory.
std::vector<checkpoint::Slice> residual_slices(const parallel::CompressionState& state, Rank rank, int ranks,
                                               const SavesTensor& saves);
/// The parts of the factors that writer `index` of `writers` saves; none for -1.
std::vector<checkpoint::Slice> factor_slices(const parallel::CompressionState& state, int index, int writers,
                                             const SavesTensor& saves);

/// The begin of the names of tensors that have what is in CompressionState::lacks.
inline constexpr const char* kLacks = "lacks/";

/// The targets for reading the state of compression, which any number of ranks may have saved. With as many ranks as
/// before, each gets its row. Otherwise rank r of R gets the sum of the rows r, r + R, ..., so that the sum of all
/// stays.
class CompressionTargets {
 public:
  /// `rank`: this rank among those that sum the same tensors. `ranks`: number of them that have residuals, the first
  /// ones. `found`: all tensors that were saved. `layout`, `whole`: layouts of the parameters here, and of all. Sets
  /// the state to zeros.
  CompressionTargets(parallel::CompressionState& state, const tensor::ArenaLayout& layout,
                     const tensor::ArenaLayout& whole, Rank rank, int ranks,
                     std::span<const checkpoint::TensorEntry> found);
  /// The targets. One without elements is for a tensor that is not needed here.
  const std::vector<checkpoint::Target>& targets() const { return targets_; }
  /// Takes from `all`, which has the state's arenas, the targets for what parameters lack, where nothing was saved.
  void leave_out_unsaved(std::vector<checkpoint::Target>& all) const;
  /// Adds up the rows. Call it after the targets were read.
  void finish();
  /// True if residuals were saved for which this state has no place.
  bool drops_residuals() const { return drops_; }

 private:
  void take_rows(const tensor::TensorView& view, const checkpoint::TensorEntry& entry, Rank rank, int ranks);
  void ignore(const checkpoint::TensorEntry& entry);

  parallel::CompressionState& state_;
  std::set<std::string, std::less<>> lacks_;  ///< the names of what was saved of what parameters lack
  std::vector<checkpoint::Target> targets_;
  std::vector<tensor::Buffer> more_;  ///< arenas of the further rows
  bool drops_ = false;
};

}  // namespace distdl::train
