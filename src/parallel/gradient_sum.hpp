// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel {

/// Sums the gradient arenas of all microbatches of a step along the fixed tree: first this rank's own, as they are
/// computed, in at most log2(microbatches) + 2 arenas, then over the ranks.
/// Once: allocate(). Per step: for each own microbatch, fill microbatch_arena() and call add(); then finish().
class GradientSum {
 public:
  /// `count`: floats of an arena. The references must outlive this object.
  GradientSum(kernels::Backend& backend, comm::Communicator& communicator, const MicrobatchPlan& plan,
              std::size_t count);

  /// Collective: registers the backend's device with the communicator. Without a device, the arenas are allocated in
  /// memory that the node's other ranks can read. Throws CommError without room for them, ConfigError where only some
  /// ranks have a device.
  void allocate();

  /// Memory for the next microbatch's gradients (backend memory).
  float* microbatch_arena();
  /// Adds the gradients in microbatch_arena().
  void add();
  /// Collective. The sum over all microbatches of all ranks (backend memory, in the same place after each step), valid
  /// until the next microbatch_arena().
  /// Throws comm::PeerLost.
  float* finish();
  /// The arena of this rank's first partial sum, before finish(): a place to add per-rank values such as flags.
  float* first_partial();

 private:
  float* arena(std::size_t index) const;
  void reduce_top();

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  comm::Leaves leaves_;
  std::size_t count_;
  std::vector<comm::TreeNode> cover_;        ///< partial sums that this rank finishes alone
  std::size_t stride_;                       ///< floats from one arena to the next
  tensor::Buffer arenas_;                    ///< a stack: finished partial sums, then those of the node being summed
  std::vector<comm::ConstVector> partials_;  ///< where they are when a step ends
  std::size_t depth_ = 0;                    ///< arenas in use
  std::size_t node_ = 0;                     ///< index in cover_
  int leaf_ = 0;                             ///< leaves done of that node
};

}  // namespace distdl::parallel
