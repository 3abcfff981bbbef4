// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/base/ids.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/auditor.hpp>
#include <distdl/train/compression/gradient_compression.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/engine/step_result.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/sync/passes.hpp>
#include <distdl/train/sync/totals.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {

/// The objects that the steps of ranks that sum gradients use. The references must outlive them.
struct StepParts {
  const Recipe& recipe;
  const parallel::Mesh& mesh;
  kernels::Backend& backend;
  const parallel::MicrobatchPlan& plan;
  Step total;  ///< steps of the run
  Microbatches& microbatches;
  GradientCompression* compression = nullptr;  ///< null: sums are exact
  parallel::GradientSum& sum;
  TotalsSum& totals;
  Auditor& auditor;
  Passes& passes;
  Update& update;
};

/// A step on its way: passes, sums, update. Where buckets allow it these overlap: sums begin in the last backward pass,
/// and what is summed is updated between its layers.
class SyncStep final : private PassedStep {
 public:
  /// `requests`: requests of this rank. `before_update` returns when the arenas of the state may be written. The
  /// references must outlive this object.
  SyncStep(const StepParts& parts, TrainingState& state, const StepRequests& requests,
           const std::function<void()>& before_update);
  /// Collective over the ranks that sum gradients together, once. Changes the state. Throws comm::PeerLost, and
  /// AuditFailed before it changes the state.
  StepResult operator()();

 private:
  const TrainingState& state() const override { return state_; }
  float scale() const override { return static_cast<float>(loss_scale_ / all_terms_); }
  void begin_sums() override;
  void follow_sums() override;

  void compute();
  /// Waits until a device has done what it was given. False in steps in which that would only cost time.
  bool await_gradients() const;
  void audit();
  /// Takes the sums that are left, up to the first one if others can be updated before.
  void sum_up();
  /// The next sum, if there is one.
  const parallel::Bucket* next_sum();
  /// With the first sum, or all of them.
  void begin_update();
  void prepare_update();
  bool overflowed() const;
  /// Updates a part.
  void apply(const optim::Elements& elements);
  /// Updates what is left of all layers, with all ranks that have them.
  void finish_update();
  void note_measures(const Microbatches::Counts& before);

  const StepParts& parts_;
  TrainingState& state_;
  const StepRequests& requests_;
  const std::function<void()>& before_update_;
  const double all_terms_, loss_scale_;
  const bool in_parts_;      ///< see Update::is_in_parts()
  bool has_begun_ = false;   ///< the sums
  bool is_updated_ = false;  ///< the totals are known, and the update has begun
  StepTotals totals_;
  StepResult result_;
  double waited_ = 0;   ///< seconds, for sums
  double between_ = 0;  ///< seconds of updates and waits between layers
};

}  // namespace distdl::train
