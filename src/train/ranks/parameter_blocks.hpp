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

/// Collective: brings the slices of a part of the arena to all ranks. `counts`: of the elements of each.
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

  /// Between two steps. `own`: microbatches of this rank. `most`: of any.
  void set_microbatches(std::size_t own, std::size_t most);
  /// Memory of Backend::reserve(), of which this rank's slices are committed.
  void set_arena(std::span<float> arena) { arena_ = arena; }
  /// Begins a step.
  void begin_step();
  /// Takes part in the gathers of the microbatches of a step that only other ranks have. Collective.
  void join_others();
  /// Seconds of the step in which passes waited for parameters.
  double waited_seconds() const { return waited_; }
  /// After the backward pass of a microbatch of this rank.
  void end_microbatch();

  /// The parameters that a network of the same layers as this stage's reads are gathered from now on. This object must
  /// outlive its use.
  void serve(model::Network& network, std::size_t stage = 0);
  /// Collective with the other ranks' passes: see model::Network::BeforeReads.
  void before_reads(std::size_t stage, bool backward, std::size_t layer);
  /// Collective, in the caller's thread. Takes part in the gathers of a pass of others.
  void join_pass(std::size_t stage, bool backward);
  /// Collective, in the caller's thread. Gathers what has these elements, until give_back().
  void gather_all(const optim::Elements& elements);
  /// Elements that this rank then writes, until give_back().
  void make_room(const optim::Elements& elements);
  /// The memory of others' slices that were gathered, or written otherwise.
  void give_back(const optim::Elements& written = {});

  /// Collective. Until end_evaluation() a forward pass gathers from this arena.
  void begin_evaluation(std::span<float> arena);
  /// Collective. Takes part in the gathers of a forward pass of others.
  void join_evaluation(std::size_t stage);
  void end_evaluation();

 private:
  /// What the layers of a stage read.
  struct Readers {
    /// In a pass forward, and backward: the parts that each layer reads.
    std::array<std::vector<std::vector<std::size_t>>, 2> parts;
    std::vector<std::size_t> first, last;  ///< of each part: numbers of layers that read it in a forward pass
  };
  Readers readers_of(const model::Network& network) const;
  void plan();
  /// How many of order_, from `begin` to `end`, must be there for these parts.
  std::size_t needed_for(std::span<const std::size_t> parts, std::size_t begin, std::size_t end) const;
  void plan_sums();
  /// So many of this step may be done.
  void release(std::size_t gathers);
  /// In the caller's thread.
  void read_now(std::size_t stage, bool backward, std::size_t layer);
  void read_in_evaluation(std::size_t stage, std::size_t layer);
  void gather(std::size_t part, std::span<float> arena, const std::stop_token& stop);
  void gather_on_device(const optim::Elements& part, const optim::Elements& own, std::span<const std::size_t> counts,
                        float* arena);
  /// Gives the memory of the others' slices back.
  void discard(std::size_t part, std::span<float> arena);
  /// Of the parts that no layer after this one reads in the pass.
  void discard_unused(std::size_t stage, bool backward, std::size_t layer, std::span<float> arena);
  void discard_all(std::span<float> arena);
  /// In use: that of an evaluation, or that of a step.
  std::span<float> arena() const { return evaluated_.empty() ? arena_ : evaluated_; }

  kernels::Backend& backend_;
  comm::Communicator& communicator_;
  const optim::Shards& shards_;
  const std::vector<std::vector<std::size_t>>& counts_;
  parallel::GradientSum& sum_;
  Thread thread_;
  std::span<float> arena_ = {};
  tensor::Buffer landing_;        ///< on a device: where a part is gathered
  std::vector<Readers> readers_;  ///< of each stage
  // In the thread of the sums:
  std::vector<std::size_t> order_;  ///< parts that a microbatch gathers
  std::size_t forward_ = 0;         ///< how many of these come before the backward pass
  /// For a pass forward, and backward: how many of order_ must be there before each layer reads.
  std::array<std::vector<std::size_t>, 2> needed_;
  std::vector<std::size_t> before_sums_;  ///< of each bucket: gathers of the last microbatch that come before it
  std::size_t released_ = 0;              ///< gathers of this step
  std::size_t done_ = 0;                  ///< gathers of this step before the current microbatch
  std::size_t have_ = 0;                  ///< gathers of the current microbatch that were waited for

  std::size_t own_ = 0, most_ = 0;     ///< microbatches
  double waited_ = 0;                  ///< see waited_seconds()
  std::vector<bool> is_here_;          ///< of each part
  std::span<float> evaluated_;         ///< in an evaluation
  std::size_t stage_ = 0, layer_ = 0;  ///< that was evaluated last
};

}  // namespace distdl::train
