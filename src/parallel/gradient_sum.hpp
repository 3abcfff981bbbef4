// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel {

/// The most arenas that a rank with `range` has in use while it sums its microbatches' gradients.
std::size_t arenas_for(comm::LeafRange range, int microbatches);

/// Sums the gradient arenas of all microbatches of a step along the fixed tree: first those of this rank, as they are
/// computed, in at most log2(microbatches) + 2 arenas, then over the ranks. Call allocate() once. In each step, for
/// each own microbatch, fill microbatch_arena() and call add(); then call finish().
class GradientSum {
 public:
  /// `count`: floats of an arena. The references must outlive this object.
  GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
              std::size_t count);

  /// Collective. Registers the backend's device with the communicator. Without a device, the arenas are allocated in
  /// memory that the node's other ranks can read. Throws comm::NoMemory if there is none for them, and ConfigError if
  /// only some ranks have a device.
  void allocate();
  /// Collective. Allocates one arena more, once, so that set_plan() has a wider choice. Throws comm::NoMemory on all
  /// ranks if one has no host memory; only this rank throws if its device has none.
  void allocate_spare();
  /// The number of arenas: arenas_for() this rank's range of a plan must not exceed it.
  std::size_t capacity() const { return capacity_ + (spare_.bytes() > 0 ? 1 : 0); }
  /// Between two steps. From now on the microbatches are divided by this plan; the sums have the same bits.
  void set_plan(const MicrobatchPlan& plan);

  /// Memory for the next microbatch's gradients (backend memory).
  float* microbatch_arena();
  /// Adds the gradients in microbatch_arena().
  void add();
  /// Collective. Returns the sum over all microbatches of all ranks, valid until the next microbatch_arena(). It is in
  /// the backend's memory, at the same address in each step. Throws comm::PeerLost.
  float* finish();
  /// The arena of this rank's first partial sum before finish(). Per-rank values such as flags can be added to it.
  float* first_partial();

 private:
  float* arena(std::size_t index) const;
  tensor::Buffer memory_for(std::size_t arenas);
  void locate_partials();
  void reduce_top();

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  comm::Leaves leaves_;
  std::size_t count_;
  std::vector<comm::TreeNode> cover_;        ///< partial sums that this rank finishes alone
  std::size_t stride_;                       ///< floats from one arena to the next
  std::size_t capacity_ = 0;                 ///< arenas in arenas_
  tensor::Buffer arenas_;                    ///< a stack: finished partial sums, then those of the current node
  tensor::Buffer spare_;                     ///< the arena after those, if there is one
  std::vector<comm::ConstVector> partials_;  ///< their addresses at the end of a step
  std::size_t depth_ = 0;                    ///< arenas in use
  std::size_t node_ = 0;                     ///< index in cover_
  int leaf_ = 0;                             ///< number of leaves of that node that are done
};

}  // namespace distdl::parallel
