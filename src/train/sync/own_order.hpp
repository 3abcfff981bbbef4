// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/parallel/plan.hpp>
#include <distdl/train/compute/reading_order.hpp>

namespace distdl::train {

/// The groups of local SGD, and those of this rank; one group, if all ranks train together.
struct OwnGroups {
  int all = 1;
  comm::LeafRange own{0, 1};
};

/// Reads this rank's microbatches of a step one after the other, those of several groups too. Before the first one of
/// the next step it reads the microbatch of another rank that it recomputes for an audit.
class OwnOrder final : public ReadingOrder {
 public:
  /// `plan`: plan of the replicas, or of each group. `self`: number among the ranks of the plan. `audit_every`: steps
  /// between audits; 0: there are none.
  OwnOrder(const parallel::MicrobatchPlan& plan, Rank self, const OwnGroups& groups, std::int64_t audit_every);

  int first() const override { return own_.first; }
  std::int64_t after(Step step, int m) const override;
  comm::LeafRange divided_with(int m) const override;

 private:
  parallel::MicrobatchPlan plan_;
  Rank self_;
  std::int64_t audit_every_;
  int groups_;
  comm::LeafRange range_;  ///< this rank's microbatches in the plan
  comm::LeafRange own_;    ///< this rank's microbatches in the step: one range also with several groups
};

}  // namespace distdl::train
