// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::train {

/// Collective: brings the slices of a part of the arena to all ranks. `counts`: of the elements of each.
void gather_slices(comm::Communicator& communicator, const optim::Elements& part, const optim::Elements& own,
                   std::span<const std::size_t> counts, float* arena, const std::stop_token& stop);

/// Parameters of which each rank has its slices, and gathers a block of layers from all ranks just before these compute
/// (ZeRO stage 3: Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", SC 2020).
/// The blocks are the parts of the shards. For ranks of several nodes: those of one have one arena of all parameters
/// instead (TrainingStep::share). One block computes, and the next one is on its way: in a forward pass from
/// the begin of the arena to its end, and back in the backward pass. What is gathered lies at its place in an arena of
/// which nothing else takes memory. What the end of a forward pass read stays for the begin of the backward pass.
///
/// A gather is collective: all ranks make equally many, in one order, in the thread of the sums. In a step each makes
/// those of as many microbatches as any rank has.
class ParameterBlocks {
 public:
  /// `sum` has as many buckets as there are parts. Before its allocate(). The references must outlive this object.
  ParameterBlocks(comm::Communicator& communicator, const optim::Shards& shards,
                  const std::vector<std::vector<std::size_t>>& counts, model::Network& network,
                  parallel::GradientSum& sum);
  ParameterBlocks(const ParameterBlocks&) = delete;
  ParameterBlocks& operator=(const ParameterBlocks&) = delete;

  /// Between two steps. `own`: microbatches of this rank. `most`: of any.
  void set_microbatches(std::size_t own, std::size_t most);
  void set_arena(std::span<float> arena) { arena_ = arena; }
  /// Begins the gathers of a step that only other ranks need. Collective.
  void begin_step();
  /// Seconds of the step in which passes waited for parameters.
  double waited_seconds() const { return waited_; }
  /// After the backward pass of a microbatch of this rank.
  void end_microbatch();

  /// Collective. Until end_evaluation() a forward pass gathers from this arena.
  void begin_evaluation(std::span<float> arena);
  /// Collective. Takes part in the gathers of a forward pass of others.
  void skip_evaluation();
  void end_evaluation();
  /// The parameters that a network of the same layers reads are gathered from now on. This object must outlive its use.
  void serve(model::Network& network);
  /// Collective with the other ranks' passes: see model::Network::BeforeReads.
  void before_reads(bool backward, std::size_t layer);

 private:
  void plan(const model::Network& network);
  void note_users(std::size_t layer, std::span<const model::Network::Elements> elements);
  /// How many of order_, from `begin` to `end`, must be there for these elements.
  std::size_t needed_for(std::span<const model::Network::Elements> elements, std::size_t begin, std::size_t end) const;
  void plan_sums();
  /// So many of this step may be done.
  void release(std::size_t gathers);
  void read_in_evaluation(std::size_t layer);
  void gather(std::size_t part, std::span<float> arena, const std::stop_token& stop);
  /// Gives the memory of the others' slices back.
  void discard(std::size_t part, std::span<float> arena) const;
  /// Of the parts that no layer after this one reads in the pass.
  void discard_unused(bool backward, std::size_t layer, std::span<float> arena);
  void discard_all(std::span<float> arena);

  comm::Communicator& communicator_;
  const optim::Shards& shards_;
  const std::vector<std::vector<std::size_t>>& counts_;
  parallel::GradientSum& sum_;
  std::span<float> arena_ = {};
  std::vector<std::size_t> first_users_, last_users_;  ///< of each part: numbers of layers
  std::vector<std::size_t> order_;                     ///< parts that a microbatch gathers
  std::size_t forward_ = 0;                            ///< how many of these come before the backward pass
  /// For a pass forward, and backward: how many of order_ must be there before each layer reads.
  std::array<std::vector<std::size_t>, 2> needed_;
  std::vector<std::size_t> before_sums_;  ///< of each bucket: gathers of the last microbatch that come before it
  std::size_t own_ = 0, most_ = 0;        ///< microbatches
  double waited_ = 0;                     ///< see waited_seconds()
  std::size_t released_ = 0;              ///< gathers of this step
  std::size_t done_ = 0;                  ///< gathers of this step before the current microbatch
  std::size_t have_ = 0;                  ///< gathers of the current microbatch, or evaluation, that were waited for
  std::vector<bool> is_here_;             ///< of each part
  std::span<float> evaluated_;            ///< in an evaluation
  std::size_t layer_ = 0;                 ///< that was evaluated last
};

}  // namespace distdl::train
