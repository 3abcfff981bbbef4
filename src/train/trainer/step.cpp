// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/schedule.hpp>
#include <distdl/train/trainer/step.hpp>

namespace distdl::train {
namespace {
/// Where each rank gives up what others need, the ranks also share the sums over a tensor to which an optimizer adapts.
bool cuts_tensors(const Recipe& recipe, const kernels::Backend& backend) {
  return parallel::shards_gradients(recipe.parallel.strategy) && backend.memory_is_host();
}

/// The parts are what of the buckets is parameters.
std::optional<optim::Shards> shards_for(const Recipe& recipe, const kernels::Backend& backend,
                                        const tensor::ArenaLayout& layout, int ranks,
                                        const std::vector<parallel::Bucket>& buckets) {
  if (recipe.parallel.strategy == parallel::Strategy::replicas || ranks == 1) return std::nullopt;
  std::vector<optim::Elements> parts;
  parts.reserve(buckets.size());
  for (const auto& bucket : buckets) parts.push_back({bucket.first, std::min(bucket.end, layout.size())});
  if (cuts_tensors(recipe, backend)) return optim::shards_of(optim::Borders::of_rows, layout, ranks, std::move(parts));
  return optim::shards_of(recipe.optim, layout, ranks, std::move(parts));
}

/// Where buckets may begin. Ranks that hold the model together sum all gradients at once, after the backward pass, when
/// the connections are free, unless buckets take turns in memory.
std::vector<std::size_t> places_for(const Recipe& recipe, const parallel::Mesh& mesh, const HeldModel& held,
                                    const model::Network& network) {
  if (!mesh.has_parts()) return network.places();
  if (!parallel::takes_turns(recipe.parallel, mesh.degrees(), mesh.data().shares_memory())) return {};
  return parallel::begins_of_tensors(held.tensors.layout);
}

int most_microbatches(const parallel::MicrobatchPlan& plan) {
  return std::ranges::max(plan.ranges, {}, &comm::LeafRange::count).count;
}

/// Where buckets take turns in memory, the key is not left to the costs of communication.
double bucket_mib_for(const parallel::Options& options, const parallel::Mesh& mesh, std::size_t gradients) {
  if (!parallel::takes_turns(options, mesh.degrees(), mesh.data().shares_memory()) || options.bucket_mib > 0)
    return options.bucket_mib;
  return static_cast<double>(parallel::least_in_turn(options, gradients) * sizeof(float)) / (1 << 20);
}
}  // namespace

TrainingStep::TrainingStep(const Recipe& recipe, const parallel::Mesh& mesh, kernels::Backend& backend,
                           const parallel::MicrobatchPlan& plan, const HeldModel& held, Step total)
    : recipe_(recipe),
      mesh_(mesh),
      held_(held),
      communicator_(mesh.data()),
      backend_(backend),
      plan_(plan),
      range_(plan.of(communicator_.rank())),
      rank_(communicator_.rank()),
      total_(total),
      network_(backend, held.model, held.parts.front(), plan.microbatch_size, held.activations),
      sum_(backend, communicator_, plan, network_.gradient_count(), places_for(recipe, mesh, held, network_),
           bucket_mib_for(recipe.parallel, mesh, network_.gradient_count())),
      tail_(backend, sum_, held.tensors.layout.size()),
      optimizer_(recipe.optim, held.tensors.layout, backend),
      auditor_(recipe.train.audit_every, backend, mesh.world(), audited_parts(mesh.degrees()), plan_,
               held.tensors.layout, network_.gradient_count()) {
  held.connect(network_);
  // Communicators that were split from one belong to one thread at a time, and the passes use some of them.
  if (mesh.has_parts()) sum_.use_callers_thread();
  if (mesh.has_pipeline()) join_pipeline();
  divide_update(held.tensors.layout);
  require(!spreads_tensors() || backend_.memory_is_host(),
          "optim.name = \"{}\" adapts its steps to whole tensors, of which a rank has a part with "
          "parallel.tensor_ranks = {}, but their norms are added up in host memory, and the backend is {}: use "
          "\"adamw\" or \"sgd\", or parallel.tensor_ranks = 1",
          recipe.optim.name, mesh.degrees().tensor, backend_.description());
  if (recipe.parallel.compression != parallel::Compression::none)
    compression_.emplace(recipe.parallel, communicator_, backend, held.tensors.layout, sum_);
}

void TrainingStep::divide_update(const tensor::ArenaLayout& layout) {
  shards_ = shards_for(recipe_, backend_, layout, communicator_.size(), sum_.buckets());
  if (!shards_) return;
  for (std::size_t part = 0; part < shards_->parts.size(); ++part) counts_.push_back(shards_->counts(part));
  // Elsewhere the parts are not those of the sums, or a device adds up the norm of all gradients.
  scatters_ = counts_.size() == sum_.buckets().size() && (backend_.memory_is_host() || !needs_squares());
  if (scatters_) sum_.scatter(counts_);
  discards_ = scatters_ && sum_.is_divided() && parallel::gives_gradients_back(recipe_.parallel, mesh_.degrees());
  if (discards_) sum_.discard_others();
  if (recipe_.parallel.strategy == parallel::Strategy::sharded_parameters) return divide_parameters();
  // What is clipped is updated after all sums; else the parameters of a bucket follow some sums later.
  constexpr std::size_t kLag = 2;
  sum_.follow_with(counts_.size(), scatters_ && updates_in_parts() ? kLag : sum_.buckets().size(),
                   [this](std::size_t part, const std::stop_token& stop) { gather(part, stop); });
}

void TrainingStep::divide_parameters() {
  require(backend_.memory_is_host(),
          "parallel.strategy = \"sharded_parameters\" needs parameters in host memory, but the backend is {}: use "
          "\"sharded\"",
          backend_.description());
  shards_parameters_ = true;
  if (parallel::share_parameters(recipe_.parallel, mesh_.degrees(), communicator_.shares_memory()))
    return;  // see share()
  const auto all = networks();
  const auto thread = mesh_.has_parts() ? ParameterBlocks::Thread::of_caller : ParameterBlocks::Thread::of_sums;
  blocks_.emplace(communicator_, *shards_, counts_, all, sum_, thread);
  if (pipeline_) pipeline_->use(*blocks_);
  tell_microbatches();
}

void TrainingStep::tell_microbatches() {
  blocks_->set_microbatches(static_cast<std::size_t>(range_.count), static_cast<std::size_t>(most_microbatches(plan_)));
}

void TrainingStep::join_pipeline() {
  pieces_ = held_.pieces(network_.gradient_count());
  if (held_.parts.size() > 1) sum_.set_pieces(pieces_);
  const bool together = recipe_.parallel.strategy == parallel::Strategy::sharded_parameters;
  pipeline_.emplace(mesh_, recipe_.parallel, backend_, held_, network_,
                    together ? most_microbatches(plan_) : range_.count);
}

void TrainingStep::load_parameters(const float* arena) {
  if (pipeline_) return pipeline_->load_parameters(arena);
  network_.load_parameters(arena);
}

std::vector<optim::Elements> TrainingStep::shard() const {
  if (!shards_) return {};
  return shards_->of[static_cast<std::size_t>(rank_.value)];
}

void TrainingStep::allocate(TrainingState& state) {
  sum_.allocate();
  if (pipeline_) pipeline_->allocate();
  if (!backend_.memory_is_host()) {  // what ranks exchange within a replica lies there, too
    if (mesh_.has_tensor()) mesh_.tensor().use(backend_.accelerator());
    if (mesh_.has_context()) mesh_.context().use(backend_.accelerator());
  }
  if (compression_) compression_->allocate(state);
  if (blocks_)
    blocks_->set_arena(state.parameters.as<float>());
  else if (shards_ && backend_.memory_is_host())
    state.parameters = communicator_.allocate(state.parameters.bytes());
  parameters_ = state.parameter_arena();
  share_sums();
}

/// Of gradients or tensors of which other ranks have some elements.
void TrainingStep::share_sums() {
  if (needs_squares() && (scatters_ || mesh_.has_parts())) {
    const auto told = scatters_ ? parallel::within(held_.told(), shard()) : held_.told();
    squares_.emplace(optim::ranges_of_norm(held_.whole.layout), told, scatters_ ? mesh_.world() : mesh_.replica());
  }
  if (spreads_tensors()) {
    const auto told = shards_ ? parallel::within(held_.told(), shard()) : held_.told();
    trust_.emplace(recipe_.optim, held_, told, shards_ ? mesh_.world() : mesh_.replica(), backend_, optimizer_.rule());
  }
}

bool TrainingStep::spreads_tensors() const {
  if (!optim::find_rule(recipe_.optim.name).adapts) return false;
  return mesh_.has_tensor() || (shards_ && cuts_tensors(recipe_, backend_));
}

bool TrainingStep::updates_in_parts() const {
  return sum_.is_divided() && !needs_squares() && !spreads_tensors();
}

void TrainingStep::share(TrainingState& state) {
  if (!has_common_arena()) return;
  const auto move = [&](tensor::Buffer& memory) {
    auto common = communicator_.allocate_common(memory.bytes());
    for (const auto& own : state.shard)
      std::ranges::copy(memory.as<float>().subspan(own.first, own.count()), common.as<float>().data() + own.first);
    memory = std::move(common);
  };
  move(state.parameters);
  for (auto& [what, memory] : state.optimizer)
    if (what.kind == optim::StateArena::Kind::average) move(memory);
  communicator_.barrier().wait();
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
  if (blocks_) tell_microbatches();
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
  if (flip_ && flip_->where == where && flip_->is_due(mesh_.world().rank(), state.step)) flip_bit(backend_, arena);
}

void TrainingStep::flip_bit_if_due(const TrainingState& state, BitFlip::Where where, float* arena, std::size_t part) {
  if (!pieces_[part].empty()) flip_bit_if_due(state, where, arena + pieces_[part].front().first);
}

void TrainingStep::tell(const Progress& now, const Requests& requests) {
  if (compression_) now.before_update();  // sums change residuals
  if (requests.stop) tail_.request_stop();
  if (requests.save) tail_.request_save();
}

/// Of this rank's microbatches. The sum over the ranks begins during the last one, unless an audit comes first. Returns
/// whether it has, with these requests.
bool TrainingStep::add_gradients(Progress& now, float scale, const Requests& requests) {
  const TrainingState& state = now.state;
  const auto audited = auditor_.audited_after(state.step);
  bool told = false;
  const auto sum_from = [&](std::size_t place) {
    if (!std::exchange(told, true)) tell(now, requests);
    sum_.set_final(place);
    if ((now.in_parts && shards_) || discards_) update_between_layers(now);
  };
  if (blocks_) blocks_->join_others();
  const bool overlaps = sum_.is_divided() && ((!auditor_.is_due(state.step) && !flip_) || blocks_);
  for (int m = range_.first; m < range_.first + range_.count; ++m) {
    const bool last = m + 1 == range_.first + range_.count;
    float* const gradients = sum_.microbatch_arena();
    compute(state, m, scale, gradients, overlaps && last ? std::ref(sum_from) : model::Network::Finished());
    if (blocks_) blocks_->end_microbatch();
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

Pipeline::Calls TrainingStep::calls_from(const TrainingState& state, int first) {
  const auto take_batch = [this, &state, first](model::Network& network, int m) {
    if (!network.reads_samples() && !network.has_loss()) return;
    const data::Batch& batch = batch_of(state, first + m);
    network.set_batch(batch.samples(), batch.labels.data());
  };
  const auto computed = [this, &state](int, std::size_t part, float* gradients) {
    flip_bit_if_due(state, BitFlip::Where::results, gradients, part);
  };
  return {take_batch, [this, &state, first](int m) { set_key(state, first + m); }, computed};
}

void TrainingStep::pass_stages(const TrainingState& state, float scale) {
  const auto audited = auditor_.audited_after(state.step);
  auto calls = calls_from(state, range_.first);
  calls.computed = [&, flip = calls.computed](int m, std::size_t part, float* gradients) {
    flip(m, part, gradients);
    flip_bit_if_due(state, BitFlip::Where::gradients, gradients, part);
    if (range_.first + m == audited) auditor_.keep(gradients, pieces_[part]);
  };
  pipeline_->pass(sum_, scale, range_.count, calls);
  if (!audited) return;
  auditor_.note(auditor_.kept());
  if (plan_.ranges.size() == 1)
    auditor_.recompute_now(*audited, [&](int m, float* gradients) { repeat_stages(state, m, scale, gradients); });
}

void TrainingStep::repeat_stages(const TrainingState& state, int m, float scale, float* gradients) {
  pipeline_->repeat(m, gradients, scale, calls_from(state, 0));
}

parallel::StepTail::Sums TrainingStep::agree(const parallel::StepTail::Sums& mine, const float* gradients,
                                             std::optional<double>& squares) {
  // Where several replicas have different gradients, the first one tells all else.
  auto& group = squares_ ? squares_->ranks() : mesh_.replica();
  const bool tells = &group != &mesh_.world() || rank_ == Rank(0);
  const auto ranks = static_cast<std::size_t>(mesh_.degrees().parts());
  const std::size_t times = 5, others = times + 2 * ranks;  // where they begin
  std::vector<double> numbers(others + (squares_ ? squares_->count() : 0));
  if (squares_) {
    parallel::Squares terms(backend_, gradients);
    squares_->write(terms, std::span(numbers).subspan(others));
  }
  if (tells && networks().back()->has_loss() && mesh_.is_first_of_group())
    numbers[0] = mine.loss, numbers[1] = mine.correct, numbers[2] = mine.terms;
  numbers[3] = mine.stop ? 1 : 0;
  numbers[4] = mine.save ? 1 : 0;
  const std::size_t own = times + (pipeline_ ? static_cast<std::size_t>(mesh_.replica().rank().value) : 0);
  if (tells && pipeline_) numbers[own] = pipeline_->times().busy, numbers[own + ranks] = pipeline_->times().all;
  group.all_reduce(comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64)).wait();
  if (squares_) {
    const auto sums = squares_->sums(std::span<const double>(numbers).subspan(others));
    squares = std::accumulate(sums.begin(), sums.end(), 0.0);
  }
  const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(times);
  const auto middle = begin + static_cast<std::ptrdiff_t>(ranks), end = middle + static_cast<std::ptrdiff_t>(ranks);
  pass_seconds_ = *std::max_element(middle, end);
  stages_waited_ = pass_seconds_ - std::accumulate(begin, middle, 0.0) / static_cast<double>(ranks);
  return {numbers[0], numbers[1], numbers[2], numbers[3] > 0, numbers[4] > 0};
}

const parallel::Bucket* TrainingStep::next_sum(Progress& now) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  const auto* const bucket = sum_.next_sum();
  now.waited += watch.seconds();
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
  auditor_.audit(state, [&](int m, float* gradients) {
    if (pipeline_) return repeat_stages(state, m, scale, gradients);
    compute(state, m, scale, gradients);
  });
  state.audited = state.step;
}

void TrainingStep::begin_update(Progress& now) {
  now.begun = true;
  // The loss is the mean over the terms that count, and how many of all do so is known only now.
  auto sums = tail_.read(sum_.result());
  if (mesh_.has_parts() || squares_) sums = agree(sums, sum_.result(), now.squares);
  now.terms = sums.terms;
  now.result.agreed = {sums.stop, sums.save};
  now.result.loss = sums.loss / sums.terms;
  now.result.accuracy = sums.correct / sums.terms;
  now.result.learning_rate = optim::learning_rate(recipe_.optim, now.state.step, total_, plan_.global_batch());
  enter_phase(RankPhase::copy);
  now.before_update();
  if (now.in_parts) prepare_update(now);
}

void TrainingStep::prepare_update(Progress& now) {
  const auto& state = now.state;
  now.result.norm = optimizer_.prepare(sum_.result(),
                                       {now.result.learning_rate, state.step.value, state.updates, plan_.microbatches,
                                        now.all_terms / now.terms / now.loss_scale},
                                       now.squares);
}

/// What is summed already is updated in the backward pass, which needs it no more, and goes to the other ranks. Else
/// their all-gathers would begin after the pass. What needs all sums is updated later.
void TrainingStep::update_between_layers(Progress& now) {
  const Stopwatch watch;
  while (sum_.has_sum()) {
    const auto* const bucket = next_sum(now);
    if (!now.in_parts) continue;
    if (!now.begun) begin_update(now);
    update(now, {bucket->first, bucket->end});
  }
  enter_phase(RankPhase::compute);
  now.between += watch.seconds();
}

void TrainingStep::apply(const TrainingState& state, const optim::Elements& elements) {
  const float* const gradients = sum_.result();
  if (!shards_) return optimizer_.apply(state.arenas(gradients), elements);
  for (std::size_t part = 0; part < state.shard.size(); ++part)
    if (const auto own = optim::common(elements, state.shard[part]); own.count() > 0)
      optimizer_.apply(state.arenas(gradients, part), own);
}

/// What is updated follows the sums to the other ranks.
void TrainingStep::update(Progress& now, const optim::Elements& elements) {
  enter_phase(RankPhase::update);
  apply(now.state, elements);
  if (!shards_ || shards_parameters_) return;
  while (now.updated < shards_->parts.size() && shards_->parts[now.updated].first >= elements.first) ++now.updated;
  sum_.release_followers(now.updated);
}

void TrainingStep::update_all(Progress& now) {
  while (const auto* const bucket = now.in_parts ? next_sum(now) : nullptr) update(now, {bucket->first, bucket->end});
  if (now.in_parts) return enter_phase(RankPhase::update);
  if (!shards_) return update(now, optimizer_.all());
  for (const auto& part : shards_->parts) update(now, part);
}

void TrainingStep::gather(std::size_t part, const std::stop_token& stop) {
  const auto& own = shards_->of[static_cast<std::size_t>(rank_.value)][part];
  gather_slices(communicator_, shards_->parts[part], own, counts_[part], parameters_, stop);
}

void TrainingStep::end_gathers(Progress& now) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  if (has_common_arena())
    communicator_.barrier().wait();  // all have updated what all read
  else
    sum_.end_step();
  now.waited += watch.seconds();
  if (shards_parameters_) return;
  const auto arenas = now.state.arenas(nullptr);
  enter_phase(RankPhase::update);
  for (std::size_t part = 0; part < shards_->parts.size(); ++part) {
    const auto &all = shards_->parts[part], &own = shards_->of[static_cast<std::size_t>(rank_.value)][part];
    optimizer_.average(arenas, {all.first, own.first});
    optimizer_.average(arenas, {own.end, all.end});
  }
}

void TrainingStep::change_parameters(Progress& now) {
  const auto change = [&] { update_all(now); };
  if (!shards_ && !pipeline_ && !trust_)
    return network_.change_parameters(std::ref(change));  // which has room in a std::function
  // Not recorded on a device: other ranks take part.
  if (trust_) (*trust_)(now.state, sum_.result());
  float* const parameters = now.state.parameter_arena();
  if (pipeline_) pipeline_->receive_borrowed(parameters);
  change();
  if (shards_) end_gathers(now);
  if (pipeline_) pipeline_->send_lent(parameters);
  load_parameters(parameters);
}

TrainingStep::Result TrainingStep::operator()(TrainingState& state, const Requests& requests,
                                              const std::function<void()>& before_update) {
  const double waited = data_waited_seconds();
  const bool scaled = scales();
  Progress now{.state = state,
               .before_update = before_update,
               .all_terms = static_cast<double>(plan_.global_batch() * network_.terms()),
               .loss_scale = state.loss_scale.value(),
               .in_parts = updates_in_parts()};
  const auto scale = static_cast<float>(now.loss_scale / now.all_terms);
  flip_bit_if_due(state, BitFlip::Where::parameters, state.parameter_arena());
  const Stopwatch computing;
  if (blocks_) blocks_->begin_step();
  if (pipeline_) pass_stages(state, scale);
  const bool told = !pipeline_ && add_gradients(now, scale, requests);
  const double for_parameters = blocks_ ? blocks_->waited_seconds() : 0;
  now.between += for_parameters;
  now.waited += for_parameters;
  if (await_gradients(state.step))
    now.result.compute_seconds = computing.seconds() - now.between - (data_waited_seconds() - waited);
  if (auditor_.is_due(state.step)) {
    const Stopwatch watch;
    audit(state, scale);
    now.result.audit_seconds = watch.seconds();
  }
  if (!told) tell(now, requests);
  if (now.in_parts && !now.begun) next_sum(now);
  while (!now.in_parts && next_sum(now) != nullptr) {
  }
  if (!now.begun) begin_update(now);
  Result& result = now.result;
  enter_phase(RankPhase::update);
  result.skipped = scaled && !(now.squares ? std::isfinite(*now.squares) : optimizer_.is_finite(sum_.result()));
  if (!result.skipped) {
    if (!now.in_parts) prepare_update(now);
    change_parameters(now);
    state.updates += 1;
  } else if (shards_ && !has_common_arena()) {
    sum_.end_step();
  }
  if (scaled) state.loss_scale.step_done(!result.skipped);
  if (scaled) result.loss_scale = now.loss_scale;
  state.step.value += 1;
  state.position += plan_.global_batch();
  if (compression_) {
    result.compression = compression_->in_use();
    result.compression_change = compression_->step_done(sum_.seconds(), now.waited);
  }
  if (plan_.ranges.size() > 1) result.sum_seconds = sum_.seconds(), result.sum_waited_seconds = now.waited;
  if (blocks_ && mesh_.has_parts()) *result.sum_seconds += blocks_->waited_seconds();
  result.waited_seconds = data_waited_seconds() - waited;
  if (pipeline_) result.pipeline_seconds = pass_seconds_, result.pipeline_waited_seconds = stages_waited_;
  return result;
}

}  // namespace distdl::train
