// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/optim/shards.hpp>
#include <distdl/train/trainer/step.hpp>

namespace distdl::train {
namespace {
std::vector<optim::Elements> shards_for(const Recipe& recipe, const tensor::ArenaLayout& layout, int ranks) {
  if (recipe.parallel.strategy == parallel::Strategy::replicas || ranks == 1) return {};
  return optim::shards_of(recipe.optim, layout, ranks);
}
}  // namespace

TrainingStep::TrainingStep(const Recipe& recipe, const parallel::Mesh& mesh, kernels::Backend& backend,
                           const parallel::MicrobatchPlan& plan, const HeldModel& held, Step total)
    : recipe_(recipe),
      mesh_(mesh),
      communicator_(mesh.data()),
      backend_(backend),
      plan_(plan),
      range_(plan.of(communicator_.rank())),
      rank_(communicator_.rank()),
      total_(total),
      network_(backend, held.model, held.parts.front(), plan.microbatch_size),
      // The ranks of a replica begin the sums when the last microbatch is done: until then their messages have the
      // connections, and communicators that were split from one belong to one thread at a time.
      sum_(backend, communicator_, plan, network_.gradient_count(),
           mesh.has_parts() ? std::vector<std::size_t>() : network_.places(), recipe.parallel.bucket_mib),
      tail_(backend, sum_, held.tensors.layout.size()),
      optimizer_(recipe.optim, held.tensors.layout, backend),
      shards_(shards_for(recipe, held.tensors.layout, communicator_.size())),
      auditor_(recipe.train.audit_every, backend, communicator_, plan_, held.tensors.layout,
               network_.gradient_count()) {
  shard_counts_.reserve(shards_.size());
  for (const auto& one : shards_) shard_counts_.push_back(one.count());
  network_.set_sum_of_shards(held.sum_of_shards());
  if (!mesh.has_parts()) return;
  if (optimizer_.needs_norm() || backend.activation_type() == tensor::DataType::float16)
    squares_.emplace(held.whole.layout, held.borders(), held.told(), backend);
  if (!mesh.has_pipeline()) return;
  if (held.parts.size() > 1) sum_.set_pieces(held.pieces(network_.gradient_count()));
  pipeline_.emplace(mesh, recipe.parallel, backend, held, network_, range_.count);
}

void TrainingStep::load_parameters(const float* arena) {
  if (pipeline_) return pipeline_->load_parameters(arena);
  network_.load_parameters(arena);
}

std::optional<optim::Elements> TrainingStep::shard() const {
  if (shards_.empty()) return std::nullopt;
  return shards_[static_cast<std::size_t>(rank_.value)];
}

void TrainingStep::allocate(TrainingState& state) {
  sum_.allocate();
  if (shard() && backend_.memory_is_host()) state.parameters = communicator_.allocate(state.parameters.bytes());
}

void TrainingStep::start_reading(const data::Sources& sources, const data::Sampler& sampler,
                                 const TrainingState& state) {
  if (!has_samples()) return;
  reader_.emplace(*sources.training, sampler, plan_.microbatch_size, order_from(state));
}

/// From one of this rank's microbatches to the next, and from its last one to its first one of the next step; before
/// that to the one of another rank that it recomputes. The reader calls it in a thread of its own.
data::Prefetcher::Next TrainingStep::order_from(const TrainingState& state) const {
  return [start = state.position, from = state.step.value, step = plan_.global_batch(), size = plan_.microbatch_size,
          range = range_, plan = plan_, every = auditor_.every(), self = rank_](std::int64_t position) {
    const std::int64_t within = (position - start) % step, begin = position - within, m = within / size;
    const bool own = m >= range.first && m < range.first + range.count;
    if (own && m + 1 < range.first + range.count) return position + size;
    const Step now(from + (begin - start) / step);
    const auto other = own ? recomputed_microbatch(plan, every, self, now) : std::nullopt;
    return other ? begin + *other * size : begin + step + range.first * size;
  };
}

void TrainingStep::set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) {
  plan_ = plan;
  range_ = plan.of(rank_);
  sum_.set_plan(plan);
  if (reader_) reader_->read_from(first_position(state.position), order_from(state));
}

const data::Batch& TrainingStep::batch_of(const TrainingState& state, int m) {
  enter_phase(RankPhase::data);
  const data::Batch& batch = reader_->at(state.position + m * plan_.microbatch_size);
  enter_phase(RankPhase::compute);
  return batch;
}

void TrainingStep::set_key(const TrainingState& state, int m) {
  backend_.set_rng_key({static_cast<std::uint64_t>(recipe_.train.seed),
                        static_cast<std::uint64_t>(state.step.value * plan_.microbatches + m)});
}

void TrainingStep::compute(const TrainingState& state, int m, float scale, float* gradients,
                           const model::Network::Finished& finished) {
  const data::Batch& batch = batch_of(state, m);
  network_.set_batch(batch.samples(), batch.labels.data());
  set_key(state, m);
  network_.forward_backward(gradients, scale, finished);
  flip_bit_if_due(state, BitFlip::Where::results, gradients);
}

void TrainingStep::flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena) {
  if (flip_ && flip_->where == where && flip_->is_due(rank_, state.step)) flip_bit(backend_, arena);
}

void TrainingStep::tell(const Requests& requests) {
  if (requests.stop) tail_.request_stop();
  if (requests.save) tail_.request_save();
}

/// Of this rank's microbatches. The sum over the ranks begins during the last one, unless an audit comes first. Returns
/// whether it has, with these requests.
bool TrainingStep::add_gradients(const TrainingState& state, float scale, const Requests& requests) {
  const auto audited = auditor_.audited_after(state.step);
  bool told = false;
  const auto sum_from = [&](std::size_t place) {
    if (!std::exchange(told, true)) tell(requests);
    sum_.set_final(place);
  };
  const bool overlaps = sum_.is_divided() && !auditor_.is_due(state.step) && !flip_;
  for (int m = range_.first; m < range_.first + range_.count; ++m) {
    const bool last = m + 1 == range_.first + range_.count;
    float* const gradients = sum_.microbatch_arena();
    compute(state, m, scale, gradients, overlaps && last ? std::ref(sum_from) : model::Network::Finished());
    flip_bit_if_due(state, BitFlip::Where::gradients, gradients);
    if (m == audited) {
      auditor_.note(gradients);
      if (plan_.ranges.size() == 1)
        auditor_.recompute_now(m, [&](int, float* again) { network_.forward_backward(again, scale); });
    }
    sum_.add();
  }
  return told;
}

void TrainingStep::pass_stages(const TrainingState& state, float scale) {
  const auto take_batch = [&](model::Network& network, int m) {
    if (!network.reads_samples() && !network.has_loss()) return;
    const data::Batch& batch = batch_of(state, range_.first + m);
    network.set_batch(batch.samples(), batch.labels.data());
  };
  pipeline_->pass(sum_, scale, {take_batch, [&](int m) { set_key(state, range_.first + m); }});
}

parallel::StepTail::Sums TrainingStep::agree(const parallel::StepTail::Sums& mine, const float* gradients,
                                             std::optional<double>& squares) {
  const auto ranks = static_cast<std::size_t>(mesh_.degrees().parts());
  const std::size_t times = 5, others = times + 2 * ranks;  // where they begin
  std::vector<double> numbers(others + (squares_ ? squares_->count() : 0));
  if (squares_) squares_->write(gradients, std::span(numbers).subspan(others));
  if (networks().back()->has_loss() && mesh_.is_first_of_tensor())
    numbers[0] = mine.loss, numbers[1] = mine.correct, numbers[2] = mine.terms;
  numbers[3] = mine.stop ? 1 : 0;
  numbers[4] = mine.save ? 1 : 0;
  const std::size_t own = times + static_cast<std::size_t>(mesh_.replica().rank().value);
  if (pipeline_) numbers[own] = pipeline_->times().busy, numbers[own + ranks] = pipeline_->times().all;
  mesh_.replica().all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
  if (squares_) squares = squares_->sum(std::span<const double>(numbers).subspan(others));
  const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(times);
  const auto middle = begin + static_cast<std::ptrdiff_t>(ranks), end = middle + static_cast<std::ptrdiff_t>(ranks);
  pass_seconds_ = *std::max_element(middle, end);
  stages_waited_ = pass_seconds_ - std::accumulate(begin, middle, 0.0) / static_cast<double>(ranks);
  return {numbers[0], numbers[1], numbers[2], numbers[3] > 0, numbers[4] > 0};
}

const parallel::Bucket* TrainingStep::next_sum(double& waited) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto* const bucket = sum_.next_sum();
  waited += watch.seconds();
  return bucket;
}

bool TrainingStep::await_gradients(Step step) {
  constexpr std::int64_t kEvery = 4;  // steps, on a device
  if (backend_.memory_is_host()) return true;
  if (step.value % kEvery != 0) return false;
  float last = 0;
  backend_.copy_to_host(&last, sum_.first_partial(), sizeof last);
  return true;
}

void TrainingStep::audit(TrainingState& state, float scale) {
  auditor_.audit(state, [&](int m, float* gradients) { compute(state, m, scale, gradients); });
  state.audited = state.step;
}

/// `in_parts`: each part as soon as its gradients are summed.
void TrainingStep::update(const optim::Arenas& arenas, bool in_parts, double& waited) {
  const auto own = shard().value_or(optimizer_.all());
  if (!in_parts) optimizer_.apply(arenas, own);
  while (const auto* const bucket = in_parts ? next_sum(waited) : nullptr) {
    enter_phase(RankPhase::update);
    optimizer_.apply(arenas, optim::common({bucket->first, bucket->end}, own));
  }
  enter_phase(RankPhase::update);
}

void TrainingStep::gather(const optim::Arenas& arenas) {
  enter_phase(RankPhase::reduce);
  const auto own = *shard(), all = optimizer_.all();
  const comm::Vector parameters(arenas.parameters, all.count(), comm::DataType::float32);
  const comm::ConstVector mine(arenas.parameters + own.first, own.count(), comm::DataType::float32);
  communicator_.all_gather(mine, parameters, shard_counts_).wait();
  enter_phase(RankPhase::update);
  optimizer_.average(arenas, {0, own.first});
  optimizer_.average(arenas, {own.end, all.end});
}

/// Of all layers, by all ranks that have them.
void TrainingStep::change_parameters(const optim::Arenas& arenas, bool in_parts, double& waited) {
  const auto change = [&] { update(arenas, in_parts, waited); };
  if (shards_.empty() && !pipeline_)
    return network_.change_parameters(std::ref(change));  // which has room in a std::function
  // Not recorded on a device: other ranks take part.
  if (pipeline_) pipeline_->receive_borrowed(arenas.parameters);
  change();
  if (!shards_.empty()) gather(arenas);
  if (pipeline_) pipeline_->send_lent(arenas.parameters);
  load_parameters(arenas.parameters);
}

TrainingStep::Result TrainingStep::operator()(TrainingState& state, const Requests& requests,
                                              const std::function<void()>& before_update) {
  const double waited = data_waited_seconds();
  const auto all_terms = static_cast<double>(plan_.global_batch() * network_.terms());
  const double loss_scale = state.loss_scale.value();
  const auto scale = static_cast<float>(loss_scale / all_terms);
  flip_bit_if_due(state, BitFlip::Where::parameters, state.parameter_arena());
  const Stopwatch computing;
  if (pipeline_) pass_stages(state, scale);
  const bool told = !pipeline_ && add_gradients(state, scale, requests);
  std::optional<double> computed;
  if (await_gradients(state.step)) computed = computing.seconds() - (data_waited_seconds() - waited);
  std::optional<double> audit_seconds;
  if (auditor_.is_due(state.step)) {
    const Stopwatch watch;
    audit(state, scale);
    audit_seconds = watch.seconds();
  }
  if (!told) tell(requests);
  double waited_for_sum = 0;
  next_sum(waited_for_sum);  // which has the totals
  const float* const gradients = sum_.result();
  // The loss is the mean over the terms that count, and how many of all do so is known only now.
  std::optional<double> squares;
  auto sums = tail_.read(gradients);
  if (mesh_.has_parts()) sums = agree(sums, gradients, squares);

  Result result{{sums.stop, sums.save},
                sums.loss / sums.terms,
                sums.correct / sums.terms,
                optim::learning_rate(recipe_.optim, state.step, total_, plan_.global_batch())};
  enter_phase(RankPhase::copy);
  result.audit_seconds = audit_seconds;
  before_update();
  const bool scaled = backend_.activation_type() == tensor::DataType::float16;
  const bool in_parts = sum_.is_divided() && !scaled && !optimizer_.needs_norm();
  while (!in_parts && next_sum(waited_for_sum) != nullptr) {
  }
  enter_phase(RankPhase::update);
  result.skipped = scaled && !(squares ? std::isfinite(*squares) : optimizer_.is_finite(gradients));
  if (!result.skipped) {
    result.norm = optimizer_.prepare(gradients,
                                     {result.learning_rate, state.step.value, state.updates, plan_.microbatches,
                                      all_terms / sums.terms / loss_scale},
                                     squares);
    const auto arenas = state.arenas(gradients);
    change_parameters(arenas, in_parts, waited_for_sum);
    state.updates += 1;
  }
  if (scaled) state.loss_scale.step_done(!result.skipped);
  if (scaled) result.loss_scale = loss_scale;
  state.step.value += 1;
  state.position += plan_.global_batch();
  result.compute_seconds = computed;
  if (plan_.ranges.size() > 1) result.sum_seconds = sum_.seconds(), result.sum_waited_seconds = waited_for_sum;
  result.waited_seconds = data_waited_seconds() - waited;
  if (pipeline_) result.pipeline_seconds = pass_seconds_, result.pipeline_waited_seconds = stages_waited_;
  return result;
}

}  // namespace distdl::train
