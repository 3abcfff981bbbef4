// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::train {

/// Collective. Gathers the slices of a part of the arena on all ranks. `counts`: elements of each slice.
void gather_slices(comm::Communicator& communicator, const optim::Elements& part, const optim::Elements& own,
                   std::span<const std::size_t> counts, float* arena, const std::stop_token& stop);

/// Parameters of which each rank has its slices, and gathers a block of layers from all ranks just before these compute
/// (ZeRO stage 3: Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion parameter models", SC 2020).
/// The blocks are the parts of the shards. For ranks of several nodes: those of one have one arena of all parameters
/// instead (CommonUpdate). One block computes, and the next one is on its way: in a forward pass from
/// the begin of the arena to its end, and back in the backward pass. What is gathered lies at its place in an arena of
/// which nothing else takes memory. What the end of a forward pass read stays for the begin of the backward pass.
///
/// A gather is collective: all ranks make equally many, in one order. In a step each makes those of as many
/// microbatches as any rank has. The thread of the sums makes them. Where passes use connections of the same
/// communicator, because ranks hold the model together, the caller's thread makes each when a layer needs it, and so it
/// is in evaluations.
class ParameterBlocks {
 public:
  enum class Thread { of_sums, of_caller };
  /// `networks`: one of each stage of this rank; of several, of a pipeline, or on a device, the caller's thread
  /// gathers. `sum` has as many buckets as there are parts. Before its allocate(). The references must outlive this
  /// object.
  ParameterBlocks(kernels::Backend& backend, comm::Communicator& communicator, const optim::Shards& shards,
                  const std::vector<std::vector<std::size_t>>& counts, std::span<model::Network* const> networks,
                  parallel::GradientSum& sum, Thread thread);
  ParameterBlocks(const ParameterBlocks&) = delete;
  ParameterBlocks& operator=(const ParameterBlocks&) = delete;

  /// Call it between two steps. `own`: microbatches of this rank. `most`: the most microbatches of any rank.
  void set_microbatches(std::size_t own, std::size_t most);
  /// The gathers that follow the sums of each step, after set_microbatches(). They use this object.
  parallel::GradientSum::Followers followers();
  /// Memory of Backend::reserve(), of which this rank's slices are committed.
  void set_arena(std::span<float> arena) { arena_ = arena; }
  /// Begins a step.
  void begin_step();
  /// Takes part in the gathers of the microbatches of a step that only other ranks have. Collective.
  void join_others();
  /// Seconds of the step in which passes waited for parameters.
  double waited_seconds() const { return waited_; }
  /// Call it after the backward pass of a microbatch of this rank.
  void end_microbatch();

  /// From now on, gathers the parameters that this network reads. It must have the layers of this stage. This object
  /// must outlive its use.
  void serve(model::Network& network, std::size_t stage = 0);
  /// Collective with the other ranks' passes: see model::Network::BeforeReads.
  void before_reads(std::size_t stage, bool backward, std::size_t layer);
  /// Collective, in the caller's thread. Takes part in the gathers of a pass of others.
  void join_pass(std::size_t stage, bool backward);
  /// Collective, in the caller's thread. Gathers the parts that have some of these elements, until give_back().
  void gather_all(const optim::Elements& elements);
  /// Commits memory for elements that this rank then writes, until give_back().
  void make_room(const optim::Elements& elements);
  /// Gives back the memory of the others' slices that were gathered, and of those in the parts that have `written`.
  void give_back(const optim::Elements& written = {});

  /// Collective. Until end_evaluation() a forward pass gathers from this arena.
  void begin_evaluation(std::span<float> arena);
  /// Collective. Takes part in the gathers of a forward pass of others.
  void join_evaluation(std::size_t stage);
  void end_evaluation();

 private:
  /// The parts that the layers of a stage read.
  struct Readers {
    /// For the forward pass, and for the backward pass: the parts that each layer reads.
    std::array<std::vector<std::vector<std::size_t>>, 2> parts;
    std::vector<std::size_t> first, last;  ///< for each part: first and last layer that reads it in a forward pass
  };
  Readers readers_of(const model::Network& network) const;
  void plan();
  /// The number of elements of order_ that must be gathered for those of these parts that lie from `begin` to `end`.
  std::size_t needed_for(std::span<const std::size_t> parts, std::size_t begin, std::size_t end) const;
  void plan_sums();
  /// Allows so many gathers of this step, counted from its begin.
  void release(std::size_t gathers);
  /// Gathers the parts that a layer reads, in the caller's thread.
  void read_now(std::size_t stage, bool backward, std::size_t layer);
  void read_in_evaluation(std::size_t stage, std::size_t layer);
  void gather(std::size_t part, std::span<float> arena, const std::stop_token& stop);
  void gather_on_device(const optim::Elements& part, const optim::Elements& own, std::span<const std::size_t> counts,
                        float* arena);
  /// Gives back the memory of the others' slices of a part.
  void discard(std::size_t part, std::span<float> arena);
  /// Calls discard() for the parts that neither this layer nor a later one reads in the pass.
  void discard_unused(std::size_t stage, bool backward, std::size_t layer, std::span<float> arena);
  void discard_all(std::span<float> arena);
  /// The arena in use: that of an evaluation, or that of a step.
  std::span<float> arena() const { return evaluated_.empty() ? arena_ : evaluated_; }

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  const optim::Shards& shards_;
  const std::vector<std::vector<std::size_t>>& counts_;
  parallel::GradientSum& sum_;
  Thread thread_;
  std::span<float> arena_ = {};
  tensor::Buffer landing_;        ///< on a device: where a part is gathered
  std::vector<Readers> readers_;  ///< readers of each stage
  // Members for gathers in the thread of the sums:
  std::vector<std::size_t> order_;  ///< parts that a microbatch gathers
  std::size_t forward_ = 0;         ///< how many of these come before the backward pass
  /// For a pass forward, and backward: how many of order_ must be there before each layer reads.
  std::array<std::vector<std::size_t>, 2> needed_;
  std::vector<std::size_t> before_sums_;  ///< for each bucket: gathers of the last microbatch that come before it
  std::size_t released_ = 0;              ///< gathers of this step that are allowed so far
  std::size_t done_ = 0;                  ///< gathers of this step before the current microbatch
  std::size_t have_ = 0;                  ///< gathers of the current microbatch that were waited for

  std::size_t own_ = 0, most_ = 0;     ///< microbatches, see set_microbatches()
  double waited_ = 0;                  ///< see waited_seconds()
  std::vector<bool> is_here_;          ///< for each part: true if it has been gathered
  std::span<float> evaluated_;         ///< arena of an evaluation; empty: there is none
  std::size_t stage_ = 0, layer_ = 0;  ///< stage and layer that were evaluated last
};

}  // namespace distdl::train
