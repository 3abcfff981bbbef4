// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/train/state/state.hpp>

// The states of the groups of local SGD (docs/local-sgd.md). In checkpoints they are tensors "group/parameter/NAME",
// "group/momentum/NAME" and so on, of the shape (groups, shape of NAME): each group has its row, whatever ranks have
// it.
namespace distdl::train {

/// Allocates the states of this rank's groups, in the backend's memory, with such arenas besides the parameters.
void allocate_groups(TrainingState& state, kernels::Backend& backend, const tensor::ArenaLayout& layout,
                     const std::vector<optim::StateArena>& arenas, const parallel::Mesh& mesh);
/// All groups begin with the parameters of `state`, which are in host memory, and with moments of zeros. Without groups
/// it does nothing.
void begin_groups(TrainingState& state, kernels::Backend& backend);
/// Bytes of the arenas of all groups of the run.
std::size_t bytes_of_groups(const TrainingState& state);

/// The slices that writer `index` saves, of the `writers` that have the same groups; none for -1. The slices point into
/// the state's memory. `layout`: layout of the parameters.
std::vector<checkpoint::Slice> group_slices(const TrainingState& state, const tensor::ArenaLayout& layout, int index,
                                            int writers);

/// The targets for reading the states of groups, which any number of ranks may have saved.
class GroupTargets {
 public:
  /// Treatment of saved states that have other groups than this run, or none.
  enum class Misfit { refused, begins_afresh };
  /// `found`: all tensors that were saved. The targets point into the state's memory. Throws StorageError with
  /// ExitCode::incompatible for a misfit that is refused.
  GroupTargets(const TrainingState& state, const tensor::ArenaLayout& layout,
               std::span<const checkpoint::TensorEntry> found, Misfit misfit);
  /// The targets. One without elements is for a tensor that is not needed here.
  const std::vector<checkpoint::Target>& targets() const { return targets_; }
  /// True if each group is read. Otherwise none is, and begin_groups() must set their values.
  bool fits() const { return fits_; }

 private:
  std::vector<checkpoint::Target> targets_;
  bool fits_ = true;
};

}  // namespace distdl::train
