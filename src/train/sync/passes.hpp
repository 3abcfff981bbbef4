// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/model/network.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/ranks/parameter_blocks.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/sync/pipeline.hpp>

namespace distdl::train {

/// The interface of a step that its passes use.
class PassedStep {
 public:
  virtual ~PassedStep() = default;
  virtual const TrainingState& state() const = 0;
  /// Factor of the loss.
  virtual float scale() const = 0;
  /// Once, before the first sum over the ranks begins: what is summed with the gradients must be complete.
  virtual void begin_sums() = 0;
  /// Between two layers of the backward pass, since begin_sums(): sums may be taken.
  virtual void follow_sums() = 0;
};

/// The objects that passes use. The references must outlive them.
struct PassesSetup {
  const Recipe& recipe;
  const parallel::Mesh& mesh;
  kernels::Backend& backend;
  const OwnedModel& held;
  const parallel::MicrobatchPlan& plan;  ///< plan of the step; it changes between two steps
  Microbatches& microbatches;
  parallel::GradientSum& sum;
  Auditor& auditor;
};

/// The passes of this rank's microbatches through the layers that it has, forward and backward.
class Passes {
 public:
  virtual ~Passes() = default;
  /// The networks of the stages of this rank, one of each, in their order.
  virtual std::vector<model::Network*> networks() = 0;
  /// Layers read parameters that these blocks gather, from now on. `blocks` must outlive its use.
  virtual void use(ParameterBlocks& blocks) = 0;
  /// Collective, once, before the first step.
  virtual void allocate() {}
  /// Loads the parameters of an arena that the backend can use.
  virtual void load_parameters(const float* arena) = 0;
  /// Collective over the ranks that hold the model together. Adds the gradients of this rank's microbatches.
  virtual void run(PassedStep& step) = 0;
  /// Collective over the same ranks. Computes the gradients of a microbatch again, which are not summed.
  virtual void repeat(const TrainingState& state, int m, float scale, float* gradients) = 0;
  /// Calls change(), which changes the parameters in this arena, and loads them. `is_alone`: no other rank takes part.
  virtual void change_parameters(float* arena, bool is_alone, const std::function<void()>& change) = 0;
  /// The times of the last run, if other ranks have other stages.
  virtual std::optional<Pipeline::Times> times() const { return std::nullopt; }
};

/// This rank has all layers, on each of its devices. The sum over the ranks begins during the last microbatch, unless
/// an audit comes first.
class DirectPasses final : public Passes {
 public:
  explicit DirectPasses(const PassesSetup& setup) : setup_(setup) {}
  std::vector<model::Network*> networks() override { return {&setup_.microbatches.network()}; }
  void use(ParameterBlocks& blocks) override { blocks_ = &blocks; }
  void load_parameters(const float* arena) override;
  void run(PassedStep& step) override;
  void repeat(const TrainingState& state, int m, float scale, float* gradients) override {
    setup_.microbatches.compute(0, state, m, scale, gradients);
  }
  void change_parameters(float* arena, bool is_alone, const std::function<void()>& change) override;

 private:
  /// Whether the sums may begin in the last microbatch of this step.
  bool overlaps(Step step) const;
  /// Computes the microbatches of a device, of which the last one calls `finished`.
  void compute_own(std::size_t device, const PassedStep& step, const model::Network::Finished& finished);

  const PassesSetup setup_;
  ParameterBlocks* blocks_ = nullptr;  ///< null: all parameters are here
};

/// This rank has some stages of a pipeline.
class PipelinePasses final : public Passes {
 public:
  explicit PipelinePasses(const PassesSetup& setup);
  std::vector<model::Network*> networks() override { return pipeline_.networks(); }
  void use(ParameterBlocks& blocks) override { pipeline_.use(blocks); }
  void allocate() override { pipeline_.allocate(); }
  void load_parameters(const float* arena) override { pipeline_.load_parameters(arena); }
  void run(PassedStep& step) override;
  void repeat(const TrainingState& state, int m, float scale, float* gradients) override;
  void change_parameters(float* arena, bool is_alone, const std::function<void()>& change) override;
  std::optional<Pipeline::Times> times() const override { return pipeline_.times(); }

 private:
  /// For microbatches that are counted from `first` of the step on.
  Pipeline::Calls calls_from(const TrainingState& state, int first);
  /// Flips a bit in what belongs to a stage here, if that has any parameters.
  void flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena, std::size_t part);

  const PassesSetup setup_;
  const comm::LeafRange range_;                 ///< this rank's microbatches
  const parallel::GradientSum::Pieces pieces_;  ///< pieces of the gradients, by the stages here
  Pipeline pipeline_;
};

std::unique_ptr<Passes> make_passes(const PassesSetup& setup);

}  // namespace distdl::train
