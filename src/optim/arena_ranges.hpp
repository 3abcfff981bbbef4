// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::optim {

/// The tensors of one role as ranges. Adjacent tensors with equal options form one range, unless they adapt:
/// then only the parts of one tensor do.
std::vector<kernels::ArenaRange> ranges_of(
    const tensor::ArenaLayout& layout, tensor::Role role,
    const std::function<kernels::GroupOptions(const tensor::TensorView&)>& treat);
/// Like above with equal options for all tensors, so that there are as few ranges as possible.
std::vector<kernels::ArenaRange> ranges_of(const tensor::ArenaLayout& layout, tensor::Role role);

/// The ranges whose squares are summed for the norm of the gradients: one for each tensor where tensors are divided,
/// because the parts may lie on several ranks, else as few as possible.
std::vector<kernels::ArenaRange> ranges_of_norm(const tensor::ArenaLayout& layout);

/// The parameter ranges for AdamW, LAMB and LARS. Tensors of one dimension (biases, norms' weights) do not adapt; they
/// decay only if optim.decay_one_dimensional is set. `adapts`: whether the other tensors adapt.
std::vector<kernels::ArenaRange> ranges_by_dimensions(const tensor::ArenaLayout& layout, const Options& options,
                                                      bool adapts);

/// Tensors that adapt, of which a rank has some elements and others have the rest.
struct SpreadTensors {
  std::vector<kernels::ArenaRange> whole;  ///< ranges in the arena of the whole model, one for each tensor
  struct Own {
    kernels::ArenaRange range;  ///< range in the rank's arena
    std::size_t tensor = 0;     ///< index in `whole`
  };
  std::vector<Own> own;
};
/// `own`: layout of the tensors that a rank has, or has parts of.
SpreadTensors spread_tensors(const tensor::ArenaLayout& whole, const tensor::ArenaLayout& own, const Options& options);

/// Elements [first, end) of the arenas.
struct Elements {
  std::size_t first = 0, end = 0;
  std::size_t count() const { return end - first; }
  bool operator==(const Elements&) const = default;
};
/// The elements that are in both; the count is 0 if there are none.
Elements common(const Elements& one, const Elements& other);

/// The parts of ranges that lie within some elements of an arena.
class CutRanges {
 public:
  /// `ranges` must be ascending.
  explicit CutRanges(std::vector<kernels::ArenaRange> ranges) : ranges_(std::move(ranges)) {
    cut_.reserve(ranges_.size());
  }
  const std::vector<kernels::ArenaRange>& whole() const { return ranges_; }
  /// Valid until the next call. A range that adapts must lie within the elements, or outside. The offsets count from
  /// `origin`, which is at most `elements.first`.
  std::span<const kernels::ArenaRange> within(const Elements& elements, std::size_t origin = 0);

 private:
  std::vector<kernels::ArenaRange> ranges_, cut_;
};

}  // namespace distdl::optim
