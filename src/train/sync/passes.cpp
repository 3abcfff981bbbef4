// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <utility>

#include <distdl/train/sync/passes.hpp>

namespace distdl::train {
namespace {
/// The microbatches that a pipeline's schedule has. Where stages gather parameters together, each replica has as many.
int scheduled_microbatches(const PassesSetup& setup, const comm::LeafRange& own) {
  if (!parallel::row_of(setup.recipe.parallel.strategy).shards_parameters) return own.count;
  return std::ranges::max(setup.plan.ranges, {}, &comm::LeafRange::count).count;
}
}  // namespace

std::unique_ptr<Passes> make_passes(const PassesSetup& setup) {
  if (setup.mesh.has_pipeline()) return std::make_unique<PipelinePasses>(setup);
  return std::make_unique<DirectPasses>(setup);
}

void DirectPasses::load_parameters(const float* arena) {
  auto& replicas = setup_.microbatches.replicas();
  replicas.run([&](std::size_t device) { replicas[device].network->load_parameters(arena); });
}

void DirectPasses::compute_own(std::size_t device, const PassedStep& step, const model::Network::Finished& finished) {
  Microbatches& microbatches = setup_.microbatches;
  Auditor& auditor = setup_.auditor;
  parallel::GradientSum& sum = setup_.sum;
  const TrainingState& state = step.state();
  const auto audited = auditor.audited_after(state.step);
  const comm::LeafRange own = sum.range(device);
  for (int m = own.first; m < own.first + own.count && !microbatches.replicas().gives_up(); ++m) {
    const bool last = m + 1 == own.first + own.count;
    float* const gradients = sum.microbatch_arena(0, device);
    microbatches.compute(device, state, m, step.scale(), gradients, last ? finished : model::Network::Finished());
    if (blocks_) blocks_->end_microbatch();
    microbatches.flip_bit_if_due(state, BitFlip::Where::gradients, gradients);
    if (m == audited) {
      auditor.note(gradients);
      if (setup_.plan.ranges.size() == 1)
        auditor.recompute_now(m,
                              [&](int, float* again) { microbatches.network().forward_backward(again, step.scale()); });
    }
    sum.add(0, device);
  }
}

bool DirectPasses::overlaps(Step step) const {
  const bool is_alike = !setup_.auditor.is_due(step) && !setup_.microbatches.has_flip();
  return setup_.sum.is_divided() && setup_.backend.memory_is_host() && (is_alike || blocks_);
}

void DirectPasses::run(PassedStep& step) {
  auto& sum = setup_.sum;
  auto& replicas = setup_.microbatches.replicas();
  bool has_begun = false;
  const auto sum_from = [&](std::size_t place) {
    if (!std::exchange(has_begun, true)) step.begin_sums();
    sum.set_final(place);
    step.follow_sums();
  };
  if (blocks_) blocks_->join_others();
  const bool in_passes = overlaps(step.state().step);
  const auto compute_one = [&](std::size_t device) {
    const auto finished = [this, device](std::size_t place) {
      setup_.sum.set_final(place, device);
      setup_.microbatches.replicas().tell_progress();
    };
    if (!in_passes) return compute_own(device, step, {});
    return device == 0 ? compute_own(device, step, std::ref(sum_from)) : compute_own(device, step, finished);
  };
  const auto follow_others = [&] {
    if (!has_begun) return;
    sum.advance();
    step.follow_sums();
  };
  replicas.run(std::ref(compute_one), std::ref(follow_others));
}

void DirectPasses::change_parameters(float* arena, bool is_alone, const std::function<void()>& change) {
  // Not recorded on a device where other ranks take part.
  if (is_alone && setup_.microbatches.replicas().size() == 1)
    return setup_.microbatches.network().change_parameters(change);
  change();
  load_parameters(arena);
}

PipelinePasses::PipelinePasses(const PassesSetup& setup)
    : setup_(setup),
      range_(setup.plan.of(setup.mesh.summing().rank())),
      pieces_(setup.held.pieces(setup.microbatches.network().gradient_count())),
      pipeline_(setup.mesh, setup.recipe.parallel, setup.backend, setup.held, setup.microbatches.network(),
                scheduled_microbatches(setup, range_)) {}

void PipelinePasses::flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena, std::size_t part) {
  if (!pieces_[part].empty()) setup_.microbatches.flip_bit_if_due(state, where, arena + pieces_[part].front().first);
}

Pipeline::Calls PipelinePasses::calls_from(const TrainingState& state, int first) {
  const auto take_batch = [this, &state, first](model::Network& network, int m) {
    if (network.reads_samples() || network.has_loss()) setup_.microbatches.take_batch(network, state, first + m);
  };
  const auto set_key = [this, &state, first](int m) { setup_.microbatches.set_key(state, first + m); };
  const auto computed = [this, &state](int, std::size_t part, float* gradients) {
    flip_bit_if_due(state, BitFlip::Where::results, gradients, part);
  };
  return {take_batch, set_key, computed};
}

void PipelinePasses::run(PassedStep& step) {
  const TrainingState& state = step.state();
  Auditor& auditor = setup_.auditor;
  const auto audited = auditor.audited_after(state.step);
  auto calls = calls_from(state, range_.first);
  calls.computed = [&, flip = calls.computed](int m, std::size_t part, float* gradients) {
    flip(m, part, gradients);
    flip_bit_if_due(state, BitFlip::Where::gradients, gradients, part);
    if (range_.first + m == audited) auditor.keep(gradients, pieces_[part]);
  };
  pipeline_.pass(setup_.sum, step.scale(), range_.count, calls);
  if (!audited) return;
  auditor.note(auditor.kept());
  if (setup_.plan.ranges.size() == 1)
    auditor.recompute_now(*audited, [&](int m, float* gradients) { repeat(state, m, step.scale(), gradients); });
}

void PipelinePasses::repeat(const TrainingState& state, int m, float scale, float* gradients) {
  pipeline_.repeat(m, gradients, scale, calls_from(state, 0));
}

void PipelinePasses::change_parameters(float* arena, bool, const std::function<void()>& change) {
  pipeline_.receive_borrowed(arena);
  change();
  pipeline_.send_lent(arena);
  load_parameters(arena);
}

}  // namespace distdl::train
