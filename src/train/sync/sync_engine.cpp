// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/train/sync/own_order.hpp>
#include <distdl/train/sync/sync_engine.hpp>

namespace distdl::train {
namespace {
/// The gradients of several stages are summed in pieces. Communicators that were split from one belong to one thread at
/// a time, and the passes of ranks that share a model use some of them.
parallel::GradientSum::Setup setup_of_sum(const EngineSetup& setup, Microbatches& microbatches) {
  auto& network = microbatches.network();
  const auto count = network.gradient_count();
  return {.places = bucket_places(setup.recipe, setup.mesh, setup.held, network, setup.backend),
          .bucket_mib = bucket_mib(setup.recipe.parallel, setup.mesh, setup.backend, count),
          .devices = microbatches.replicas().backends(),
          .pieces = setup.held.parts.size() > 1 ? setup.held.pieces(count) : parallel::GradientSum::Pieces(),
          .in_callers_thread = setup.mesh.has_parts()};
}
}  // namespace

SyncEngine::SyncEngine(const EngineSetup& setup)
    : recipe_(setup.recipe),
      mesh_(setup.mesh),
      backend_(setup.backend),
      total_(setup.total),
      plan_(mesh_.has_groups() ? parallel::plan_of_group(recipe_.parallel, mesh_.summing().size()) : setup.plan),
      microbatches_(recipe_, backend_, setup.held, mesh_.world().rank(), setup.plan.microbatches, plan_.microbatch_size,
                    setup.setting.devices_per_rank),
      sum_(backend_, mesh_.summing(), plan_, microbatches_.network().gradient_count(),
           setup_of_sum(setup, microbatches_)),
      auditor_(recipe_.train.audit_every, backend_, mesh_.world(), audited_parts(mesh_.degrees()), plan_,
               setup.held.tensors.layout, microbatches_.network().gradient_count()) {
  const OwnedModel& held = setup.held;
  held.connect(microbatches_.network());
  passes_ = make_passes({recipe_, mesh_, backend_, held, plan_, microbatches_, sum_, auditor_});
  totals_.emplace(mesh_, held, backend_, sum_, networks().back()->has_loss());
  update_ = make_update({recipe_, mesh_, backend_, held, sum_}, networks(), plan_);
  if (auto* const blocks = update_->blocks()) passes_->use(*blocks);
  if (recipe_.parallel.compression.is_on() && !mesh_.has_groups()) {
    const GradientCompression::Sums sums{mesh_.summing(), mesh_.world(), held.tensors.layout, held.whole.layout,
                                         sum_.buckets()};
    compression_.emplace(recipe_.parallel, recipe_.optim, sums, backend_, all_labels_count(held.model.loss));
  }
  balancing_.emplace(recipe_, setup.setting, mesh_.world(), setup.timeout, setup.observer, backend_,
                     static_cast<MovableMicrobatches&>(*this));
}

Engine::Needs SyncEngine::needs() const {
  return {update_->state_arenas(), update_->shard(), update_->shards_parameters()};
}

void SyncEngine::allocate(TrainingState& state) {
  auto reduction = update_->reduction();
  if (compression_) reduction.compressed = &compression_->sum();
  sum_.allocate(std::move(reduction));
  passes_->allocate();
  if (!backend_.memory_is_host()) {  // what ranks exchange within a replica lies there, too
    if (mesh_.has_tensor()) mesh_.tensor().use(backend_.accelerator());
    if (mesh_.has_context()) mesh_.context().use(backend_.accelerator());
  }
  if (compression_) compression_->allocate(state);
  if (update_->needs_squares())
    totals_->share_squares(update_->scatters() ? update_->shard() : std::vector<optim::Elements>());
  update_->allocate(state);
}

void SyncEngine::start_reading(const data::Sources& sources, const data::Sampler& sampler, const TrainingState& state) {
  const bool has_samples = microbatches_.network().reads_samples() || networks().back()->has_loss();
  if (has_samples) microbatches_.start_reading(sources, sampler, state, reading_order());
}

std::shared_ptr<const ReadingOrder> SyncEngine::reading_order() const {
  const OwnGroups groups = mesh_.has_groups() ? OwnGroups{mesh_.degrees().groups, mesh_.groups()} : OwnGroups{};
  return std::make_shared<OwnOrder>(plan_, mesh_.summing().rank(), groups, auditor_.every());
}

/// The ranks compute the microbatches of this plan, which gives the same bits.
void SyncEngine::set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) {
  plan_ = plan;
  sum_.set_plan(plan);
  update_->set_plan(plan_);
  microbatches_.read_on(state, reading_order());
}

Engine::Advance SyncEngine::advance(TrainingState& state, std::int64_t, const Calls& calls) {
  const auto requests = calls.requests(Step(state.step.value + 1));
  const auto done = step(state, requests, calls.before_update);
  return {done.agreed, {done}};
}

StepResult SyncEngine::step_of_group(int group, TrainingState& state, const StepRequests& requests,
                                     const std::function<void()>& before_update) {
  microbatches_.count_from(group * plan_.microbatches);
  return step(state, requests, before_update);
}

StepResult SyncEngine::step(TrainingState& state, const StepRequests& requests,
                            const std::function<void()>& before_update) {
  const StepParts parts{.recipe = recipe_,
                        .mesh = mesh_,
                        .backend = backend_,
                        .plan = plan_,
                        .total = total_,
                        .microbatches = microbatches_,
                        .compression = compression_ ? &*compression_ : nullptr,
                        .sum = sum_,
                        .totals = *totals_,
                        .auditor = auditor_,
                        .passes = *passes_,
                        .update = *update_};
  return SyncStep(parts, state, requests, before_update)();
}

void SyncEngine::balance(TrainingState& state, const Advance& done, double seconds, bool is_disturbed) {
  balancing_->step_done(state, done.steps.back(), seconds, is_disturbed);
}

}  // namespace distdl::train
