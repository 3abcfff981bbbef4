// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/balance/microbatch_mover.hpp>
#include <distdl/train/compression/gradient_compression.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/engine/engine.hpp>
#include <distdl/train/sync/passes.hpp>
#include <distdl/train/sync/sync_step.hpp>
#include <distdl/train/sync/totals.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {

/// Ranks that sum the gradients of each step: replicas, with or without shards and parts of the model. With local SGD
/// each group does such steps, one group of this rank after the other.
class SyncEngine final : public Engine, private MovableMicrobatches {
 public:
  /// Not collective.
  explicit SyncEngine(const EngineSetup& setup);

  Needs needs() const override;
  void allocate(TrainingState& state) override;
  void share(TrainingState& state) override { update_->share(state); }
  void start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state) override;
  void load_parameters(const float* arena) override { passes_->load_parameters(arena); }
  Advance advance(TrainingState& state, std::int64_t most_steps, const Calls& calls) override;
  void balance(TrainingState& state, const Advance& done, double seconds, bool is_disturbed) override;
  std::vector<model::Network*> networks() override { return passes_->networks(); }
  std::size_t devices() override { return microbatches_.replicas().size(); }
  std::size_t gradient_bytes() const override { return sum_.bytes(); }
  std::string compression() const override { return compression_ ? compression_->in_use() : ""; }
  ParameterBlocks* parameter_blocks() override { return update_->blocks(); }
  Auditor* auditor() override { return &auditor_; }
  void flip(const std::optional<BitFlip>& flip) override { microbatches_.flip(flip); }

  /// Collective over the ranks of a group. The same for local SGD: the step of group `group` of all, with its own
  /// state.
  StepResult step_of_group(int group, TrainingState& state, const StepRequests& requests,
                           const std::function<void()>& before_update);
  /// The microbatches of all groups.
  const Microbatches& microbatches() const { return microbatches_; }

 private:
  const parallel::MicrobatchPlan& plan() const override { return plan_; }
  void set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) override;
  void allocate_spare() override { sum_.allocate_spare(); }
  bool recomputes() override { return networks().front()->recomputes(); }

  StepResult step(TrainingState& state, const StepRequests& requests, const std::function<void()>& before_update);
  std::shared_ptr<const ReadingOrder> reading_order() const;

  const Recipe& recipe_;
  const parallel::Mesh& mesh_;
  kernels::Backend& backend_;
  const Step total_;
  parallel::MicrobatchPlan plan_;  ///< plan of a group, if there are groups
  Microbatches microbatches_;
  // The sums, and what follows them in their thread, need these two: they are there longer.
  std::optional<GradientCompression> compression_;  ///< none: sums are exact
  std::unique_ptr<Update> update_;
  parallel::GradientSum sum_;
  Auditor auditor_;
  std::unique_ptr<Passes> passes_;
  std::optional<TotalsSum> totals_;
  std::optional<Balancing> balancing_;
};

}  // namespace distdl::train
