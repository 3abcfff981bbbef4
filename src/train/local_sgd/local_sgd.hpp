// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/records/steps.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Local SGD: groups of microbatches train parameters of their own, and after each round of steps these are averaged
/// (docs/local-sgd.md). This class does what the groups do together. All sums over groups follow the fixed tree of
/// comm::TreeNode, with a leaf for each group, so that no bit depends on the ranks, except with compression.
class LocalSgd {
 public:
  /// Not collective. The references must outlive this object. `backend`: the groups are in its memory; the averaged
  /// state is in host memory. `total`: steps of the run, the last of which ends a round.
  LocalSgd(const parallel::Options& options, const parallel::Mesh& mesh, kernels::Backend& backend,
           const tensor::ArenaLayout& layout, Step total);

  /// Arenas that the outer steps keep from one round to the next.
  std::vector<optim::StateArena> state_arenas() const;

  /// The fields of a group's record whose means are in that of a step, where the groups have them.
  static constexpr std::array kMeans{&records::StepDone::loss, &records::StepDone::accuracy,
                                     &records::StepDone::gradient_norm};
  /// Figures of a group, or their means over all groups.
  struct Figures {
    std::array<double, kMeans.size()> means{};  ///< in the order of kMeans
    double stop = 0, save = 0;                  ///< above 0: a rank has requested it
    double skipped = 0;                         ///< number of groups whose gradients overflowed
  };
  /// The figures of a group of this rank, counted from its first one. Set them before means(), which changes them.
  Figures& figures(std::size_t group) { return figures_.at(group); }
  /// Collective. The means over all groups; requests and skipped steps are summed.
  Figures means();

  /// True if a round ends with the last of so many steps.
  bool ends_round(Step done) const;
  /// Collective. Averages the parameters of the groups, statistics included, makes the outer step, and gives all groups
  /// the result. `compressed`: sums what the ranks send, with one bucket; null: it is exact. Returns the seconds of the
  /// sum.
  double end_round(TrainingState& state, parallel::CompressedSum* compressed);

 private:
  /// The parameters of each group in host memory, to be changed at will.
  std::vector<std::span<float>> on_host(const TrainingState& state);
  /// Adds the values of a node's groups along the tree: `add(to, from)` adds those of this rank's group `from` to those
  /// of its group `to`. The first group of the node then has the sum.
  void add_up(comm::TreeNode node, const std::function<void(int to, int from)>& add) const;
  /// Collective. The exact sum of the parameters.
  void add_over_ranks(std::span<const float* const> partials, float* result);
  /// The number of a node's first group, among those of this rank.
  int first_of(comm::TreeNode node) const;
  /// Values that are summed at the end of a round: the groups' parameters, or their differences from the parameters of
  /// the last round.
  enum class Sums { of_parameters, of_differences };
  /// Leaves the averages in `sums`.
  void step_outwards(const TrainingState& state, float* sums, Sums what) const;

  const parallel::Options& options_;
  kernels::Backend& backend_;
  const tensor::ArenaLayout& layout_;
  comm::Communicator& world_;
  comm::Leaves leaves_;                ///< groups that each rank adds
  std::vector<comm::TreeNode> cover_;  ///< cover of this rank's groups
  int first_;                          ///< number of this rank's first group
  std::vector<Figures> figures_;
  std::vector<comm::ConstVector> partials_;  ///< sums of the figures, one for each node of cover_
  Step total_;
  std::vector<tensor::Buffer> copies_;  ///< host copies of the groups' parameters, if they are on a device
};

}  // namespace distdl::train
