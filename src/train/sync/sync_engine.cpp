// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/server/lease_order.hpp>
#include <distdl/train/sync/own_order.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {
void TrainingStep::start_reading(const data::Sources& sources, const data::Sampler& sampler,
                                 const TrainingState& state) {
  if (has_samples()) microbatches_.start_reading(sources, sampler, state, reading_order());
}

std::shared_ptr<const ReadingOrder> TrainingStep::reading_order() const {
  if (server_) return std::make_shared<LeaseOrder>(server_->parts(), static_cast<int>(server_->workers()));
  const OwnGroups groups = mesh_.has_groups() ? OwnGroups{mesh_.degrees().groups, mesh_.groups()} : OwnGroups{};
  return std::make_shared<OwnOrder>(plan_, rank_, groups, auditor_.every());
}

void TrainingStep::set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) {
  plan_ = plan;
  range_ = plan.of(rank_);
  sum_.set_plan(plan);
  update_->set_plan(plan_);
  microbatches_.read_on(state, reading_order());
}

TrainingStep::Result TrainingStep::operator()(TrainingState& state, const Requests& requests,
                                              const std::function<void()>& before_update) {
  return local_ ? step_of_groups(state, requests, before_update) : step(state, requests, before_update);
}

TrainingStep::Result TrainingStep::step(TrainingState& state, const Requests& requests,
                                        const std::function<void()>& before_update) {
  auto* const compression = compression_ && !local_ ? &*compression_ : nullptr;
  const StepParts parts{recipe_,     mesh_, backend_, plan_,    total_,   microbatches_,
                        compression, sum_,  *totals_, auditor_, *passes_, *update_};
  return SyncStep(parts, state, requests, before_update)();
}

}  // namespace distdl::train
