// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/network.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/compression/change_gather.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/sync/trust_ratios.hpp>

namespace distdl::train {

/// The objects that an update uses. The references must outlive it.
struct UpdateSetup {
  const Recipe& recipe;
  const parallel::Mesh& mesh;
  kernels::Backend& backend;
  const OwnedModel& held;
  parallel::GradientSum& sum;
};

/// The end of a step on this rank: from the sums of the gradients to the parameters of the next step. Subclasses differ
/// in the elements that the rank updates itself, and in those that it then gets from others, see make_update().
class Update {
 public:
  explicit Update(const UpdateSetup& setup);
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;
  virtual ~Update() = default;

  /// The arenas that the optimizer needs besides the parameters.
  std::vector<optim::StateArena> state_arenas() const { return optimizer_.state(); }
  /// See TrainingState::shard.
  virtual std::vector<optim::Elements> shard() const { return {}; }
  /// See TrainingState::shards_parameters.
  virtual bool shards_parameters() const { return false; }
  /// Returns how the gradients are summed over the ranks, and what follows the sums: for GradientSum::allocate().
  virtual parallel::GradientSum::Reduction reduction() { return {}; }
  /// Whether this rank gets its slices of the sums of the gradients only.
  virtual bool scatters() const { return false; }
  /// The gathers of the parameters of other ranks; null: all parameters can be read.
  virtual ParameterBlocks* blocks() { return nullptr; }
  /// Collective, once, before the first step.
  virtual void allocate(TrainingState& state);
  /// Collective, once, when the state has its first values.
  virtual void share(TrainingState& state);
  /// Between two steps. The replicas divide the microbatches by this plan from now on.
  virtual void set_plan(const parallel::MicrobatchPlan&) {}

  /// Whether the update depends on the squares of all gradients.
  bool needs_squares() const { return optimizer_.needs_norm() || scales_; }
  /// Whether the loss is scaled, so that gradients may overflow.
  bool scales() const { return scales_; }
  /// Whether no sum of the gradients has overflowed. Waits for the backend.
  bool is_finite() { return optimizer_.is_finite(setup_.sum.result()); }
  /// Whether a bucket can be updated before others are summed.
  bool is_in_parts() const;
  /// Whether sums are to be taken between the layers of the backward pass, because others follow them, or because their
  /// memory is needed.
  virtual bool follows_passes() const { return false; }
  /// Whether no other rank takes part in it, once there are sums.
  virtual bool is_alone() const { return false; }

  /// Before anything else of each step. `gradients`: their encoding, if they are compressed.
  virtual void begin_step(parallel::Compression) {}
  /// Prepares the update of all sums, or of the first bucket; see optim::Optimizer::prepare().
  std::optional<double> prepare(const optim::StepInfo& now, std::optional<double> squares) {
    return optimizer_.prepare(setup_.sum.result(), now, squares);
  }
  /// Collective, between prepare() and apply(): for optimizers that adapt to tensors of which several ranks have some
  /// elements each.
  virtual void adapt(const TrainingState& state);
  /// The elements to apply, one after the other, where all buckets are summed.
  virtual std::span<const optim::Elements> parts() const = 0;
  /// Collective. Updates those of these elements that are this rank's.
  virtual void apply(const TrainingState& state, const optim::Elements& elements) = 0;
  /// Collective, after all elements. Waits for what the other ranks have updated, and returns the seconds of that.
  virtual double finish(const TrainingState&) { return 0; }
  /// Collective, in place of an update.
  virtual void skip() {}

 protected:
  /// Whether the optimizer adapts to tensors of which several ranks have some elements each.
  bool spreads_tensors() const;
  /// Whether the ranks give up the gradients of others, which cuts tensors.
  virtual bool cuts_tensors() const { return false; }

  const UpdateSetup setup_;
  optim::Optimizer optimizer_;

 private:
  const bool scales_;
  std::optional<TrustRatios> trust_;  ///< none: the optimizer does not adapt, or has whole tensors
};

/// Each rank updates all parameters that it has.
class WholeUpdate final : public Update {
 public:
  explicit WholeUpdate(const UpdateSetup& setup) : Update(setup), all_(optimizer_.all()) {}
  bool is_alone() const override { return !spreads_tensors(); }
  std::span<const optim::Elements> parts() const override { return {&all_, 1}; }
  void apply(const TrainingState& state, const optim::Elements& elements) override {
    optimizer_.apply(state.arenas(setup_.sum.result()), elements);
  }

 private:
  optim::Elements all_;
};

/// Each rank updates its slice of each part of the parameters, of which it alone has the moments.
class SlicedUpdate : public Update {
 public:
  SlicedUpdate(const UpdateSetup& setup, optim::Shards shards);
  std::vector<optim::Elements> shard() const override { return own(); }
  parallel::GradientSum::Reduction reduction() override;
  bool scatters() const override { return scatters_; }
  bool follows_passes() const override { return is_in_parts() || discards_; }
  std::span<const optim::Elements> parts() const override { return shards_.parts; }
  void apply(const TrainingState& state, const optim::Elements& elements) override;
  double finish(const TrainingState& state) override;
  void skip() override { setup_.sum.end_step(); }

 protected:
  bool cuts_tensors() const override;
  comm::Communicator& ranks() const { return setup_.mesh.summing(); }
  /// This rank's slices, one of each part.
  const std::vector<optim::Elements>& own() const;
  /// Collective. Waits until the others' parameters can be read.
  virtual void await_others() { setup_.sum.end_step(); }

  optim::Shards shards_;
  std::vector<std::vector<std::size_t>> counts_;  ///< for each part: the elements of each slice
  bool averages_later_ = false;                   ///< apply() leaves the average of the parameters to finish()

 private:
  bool scatters_ = false;
  bool discards_ = false;  ///< this rank gives the others' gradients back as the backward pass goes on
};

/// Each rank updates its slices. All-gathers, which follow the sums in their thread, bring them to the other ranks, or
/// codes of what has changed in them.
class ShardedUpdate final : public SlicedUpdate {
 public:
  ShardedUpdate(const UpdateSetup& setup, optim::Shards shards);
  parallel::GradientSum::Reduction reduction() override;
  void allocate(TrainingState& state) override;
  void begin_step(parallel::Compression gradients) override;
  void adapt(const TrainingState& state) override;
  void apply(const TrainingState& state, const optim::Elements& elements) override;
  double finish(const TrainingState& state) override;

 private:
  /// Collective. Gathers the parameters of a part from the ranks that have updated its slices.
  void gather(std::size_t part, const std::stop_token& stop);

  std::optional<ChangeGather> changes_;  ///< none: parameters are gathered as they are
  bool is_exact_ = false;                ///< this rank's slices have exact parameters already in this step
  float* parameters_ = nullptr;          ///< arena of the parameters that are gathered
  std::size_t updated_ = 0;              ///< number of parts updated in this step
};

/// Ranks of one node that have a part of the parameters each keep it in one arena, which all of them read.
class CommonUpdate final : public SlicedUpdate {
 public:
  using SlicedUpdate::SlicedUpdate;
  bool shards_parameters() const override { return true; }
  void share(TrainingState& state) override;
  void skip() override {}

 private:
  void await_others() override;
};

/// Each rank has its slices of the parameters only. Layers gather the others just before they compute.
class GatheredUpdate final : public SlicedUpdate {
 public:
  /// `networks`: of each stage of this rank.
  GatheredUpdate(const UpdateSetup& setup, optim::Shards shards, std::span<model::Network* const> networks,
                 const parallel::MicrobatchPlan& plan);
  bool shards_parameters() const override { return true; }
  parallel::GradientSum::Reduction reduction() override;
  ParameterBlocks* blocks() override { return &blocks_; }
  void allocate(TrainingState& state) override;
  void set_plan(const parallel::MicrobatchPlan& plan) override;
  void begin_step(parallel::Compression) override { blocks_.begin_step(); }

 private:
  void set_microbatches(const parallel::MicrobatchPlan& plan);

  ParameterBlocks blocks_;
};

/// Chooses by the strategy and by where the ranks are. `networks`: of each stage of this rank. `plan`: of the replicas.
std::unique_ptr<Update> make_update(const UpdateSetup& setup, std::span<model::Network* const> networks,
                                    const parallel::MicrobatchPlan& plan);

/// Where the buckets of gradients may begin: see parallel::GradientSum.
std::vector<std::size_t> bucket_places(const Recipe& recipe, const parallel::Mesh& mesh, const OwnedModel& held,
                                       const model::Network& network, const kernels::Backend& backend);
/// The size of a bucket, in MiB; 0: by the costs of communication. `gradients`: floats.
double bucket_mib(const parallel::Options& options, const parallel::Mesh& mesh, const kernels::Backend& backend,
                  std::size_t gradients);

}  // namespace distdl::train
