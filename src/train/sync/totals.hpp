// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/piece_sums.hpp>
#include <distdl/parallel/step_tail.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/sync/pipeline.hpp>

namespace distdl::train {

/// Times of the stages of a pipeline in a step.
struct StageTimes {
  double seconds = 0;  ///< seconds of the passes, on the rank where they took longest
  double waited = 0;   ///< seconds of them in which a rank waited for other stages, on average
  double busiest = 0;  ///< seconds in which the rank that waited least did not wait
};

/// The totals of a step, known to all ranks once its gradients are summed.
struct StepTotals {
  double loss = 0, correct = 0;           ///< see model::Totals
  double terms = 1;                       ///< counted terms of the loss; at least 1
  bool stop = false, save = false;        ///< true if any rank has requested it
  std::optional<double> squares = {};     ///< sum of squares of all gradients, if a rank has only some of them
  std::optional<StageTimes> stages = {};  ///< with a pipeline
};

/// Sums the totals of a step over the ranks. They are in the tail of the gradients and cost no message of their own,
/// but where ranks hold the model together, or have some elements of the gradients each: then a second sum follows.
class TotalsSum {
 public:
  /// Not collective. `has_loss`: the last stage of this rank has the loss. The references must outlive this object.
  TotalsSum(const parallel::Mesh& mesh, const OwnedModel& held, kernels::Backend& backend, parallel::GradientSum& sum,
            bool has_loss);
  /// Collective, once, before the first step, where the update depends on the squares of all gradients. `own`: the
  /// slices of the sums that this rank gets; empty: all.
  void share_squares(const std::vector<optim::Elements>& own);
  /// Requests of this rank to all ranks, at most once per step, after its last microbatch and before the first sum
  /// ends.
  void request_stop() { tail_.request_stop(); }
  void request_save() { tail_.request_save(); }
  /// Collective, after the first sum, or where squares are shared after all of them. `own`: times of this rank's
  /// passes, with a pipeline. Throws comm::PeerLost.
  StepTotals sum(const std::optional<Pipeline::Times>& own);

 private:
  StepTotals sum_again(const parallel::StepTail::Sums& mine, const std::optional<Pipeline::Times>& times);
  /// The rank whose totals count: of replicas with different gradients the first one, and one of a tensor group.
  bool tells() const;

  const parallel::Mesh& mesh_;
  const OwnedModel& held_;
  kernels::Backend& backend_;
  parallel::GradientSum& sum_;
  bool has_loss_;
  parallel::StepTail tail_;
  std::optional<parallel::PieceSums> squares_;  ///< where several ranks have some gradients each
};

}  // namespace distdl::train
