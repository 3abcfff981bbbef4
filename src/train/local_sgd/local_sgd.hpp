// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/compressed_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/tensor/arena.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Local SGD: groups of microbatches train parameters of their own, and after each round of steps these are averaged
/// (docs/local-sgd.md). This is what the groups have to do with each other. All sums over groups follow the fixed tree
/// of comm::TreeNode, with a leaf for each group, so that no bit depends on the ranks; but for what is compressed.
class LocalSgd {
 public:
  /// Not collective. The references must outlive this object. `backend`: that in whose memory the groups are; what is
  /// above them in the state is in the host's. `total`: steps of the run, the last of which ends a round.
  LocalSgd(const parallel::Options& options, const parallel::Mesh& mesh, kernels::Backend& backend,
           const tensor::ArenaLayout& layout, Step total);

  /// What the outer steps keep from one round to the next.
  std::vector<optim::StateArena> state_arenas() const;

  /// What is told of a group, or on average of all groups.
  struct Figures {
    double loss = 0, accuracy = 0, norm = 0;
    double stop = 0, save = 0;  ///< above 0: a rank has requested it
  };
  /// Of a group of this rank, counted from its first one. To be set before means(), which changes them.
  Figures& figures(std::size_t group) { return figures_.at(group); }
  /// Collective. The means over all groups; of requests, the sums.
  Figures means();

  /// Whether a round ends with the last of so many steps.
  bool ends_round(Step done) const;
  /// Collective. Averages the parameters of the groups, statistics included, makes the outer step, and gives all groups
  /// the result. `compressed`: sums what the ranks send, with one bucket; null: it is exact. Returns the seconds of the
  /// sum.
  double end_round(TrainingState& state, parallel::CompressedSum* compressed);

 private:
  /// The parameters of each group in host memory, to be changed at will.
  std::vector<std::span<float>> on_host(const TrainingState& state);
  /// Adds what the groups of a node have, along the tree: `add(to, from)` adds what the group `from` of this rank has
  /// to what `to` has. The first group of the node then has the sum.
  void add_up(comm::TreeNode node, const std::function<void(int to, int from)>& add) const;
  /// Collective. The exact sum of the parameters.
  void add_over_ranks(std::span<const float* const> partials, float* result);
  /// The number of a node's first group, among those of this rank.
  int first_of(comm::TreeNode node) const;
  /// Of what the groups have at the end of a round: parameters, or what these differ by from those of the last round.
  enum class Sums { of_parameters, of_differences };
  void step_outwards(const TrainingState& state, const float* sums, Sums what) const;

  const parallel::Options& options_;
  kernels::Backend& backend_;
  const tensor::ArenaLayout& layout_;
  comm::Communicator& world_;
  comm::Leaves leaves_;                ///< groups that each rank adds
  std::vector<comm::TreeNode> cover_;  ///< of those of this rank
  int first_;                          ///< group of this rank
  std::vector<Figures> figures_;
  std::vector<comm::ConstVector> partials_;  ///< of the figures
  Step total_;
  std::vector<tensor::Buffer> copies_;  ///< of the groups' parameters, if they are not in host memory
};

}  // namespace distdl::train
