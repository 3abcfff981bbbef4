// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/train/sync/update.hpp>

namespace distdl::train {
namespace {
/// The parts are what of the buckets is parameters.
std::optional<optim::Shards> shards_for(const UpdateSetup& setup) {
  const auto& [recipe, mesh, backend, held, sum] = setup;
  const int ranks = mesh.summing().size();
  const auto& layout = held.tensors.layout;
  if (!parallel::row_of(recipe.parallel.strategy).shards_moments || ranks == 1) return std::nullopt;
  std::vector<optim::Elements> parts;
  parts.reserve(sum.buckets().size());
  for (const auto& bucket : sum.buckets()) parts.push_back({bucket.first, std::min(bucket.end, layout.size())});
  // Where each rank gives up what others need, the ranks also share the sums over a tensor to which an optimizer
  // adapts.
  const bool adapts =
      optim::find_rule(recipe.optim.name).adapts && !parallel::row_of(recipe.parallel.strategy).shards_gradients;
  if (parallel::codes_changes(recipe.parallel) && !adapts)
    return optim::shards_of(optim::Borders::of_units, layout, ranks, std::move(parts));
  if (parallel::row_of(recipe.parallel.strategy).shards_gradients)
    return optim::shards_of(optim::Borders::of_rows, layout, ranks, std::move(parts));
  return optim::shards_of(recipe.optim, layout, ranks, std::move(parts));
}

/// Whether replicas can read one arena.
bool shares_memory(const parallel::Mesh& mesh, const kernels::Backend& backend) {
  return backend.memory_is_host() && mesh.data().shares_memory();
}

/// On a device gradients do not, but parameters do.
bool takes_turns(const parallel::Options& options, const parallel::Mesh& mesh, const kernels::Backend& backend) {
  if (!backend.memory_is_host() && !parallel::row_of(options.strategy).shards_parameters) return false;
  return parallel::takes_turns(options, mesh.degrees(), shares_memory(mesh, backend));
}

/// Only one thread may use a device, and the connections of ranks that hold the model together.
ParameterBlocks::Thread thread_for(const UpdateSetup& setup) {
  const bool is_alone = setup.mesh.has_parts() || !setup.backend.memory_is_host();
  return is_alone ? ParameterBlocks::Thread::of_caller : ParameterBlocks::Thread::of_sums;
}
}  // namespace

/// Ranks that hold the model together sum all gradients at once, after the backward pass, when the connections are
/// free, and so do ranks with devices, unless buckets take turns in memory.
std::vector<std::size_t> bucket_places(const Recipe& recipe, const parallel::Mesh& mesh, const OwnedModel& held,
                                       const model::Network& network, const kernels::Backend& backend) {
  if (!mesh.has_parts() && backend.memory_is_host()) return network.places();
  if (!takes_turns(recipe.parallel, mesh, backend)) return {};
  return parallel::begins_of_tensors(held.tensors.layout);
}

/// Where buckets take turns in memory, the key is not left to the costs of communication.
double bucket_mib(const parallel::Options& options, const parallel::Mesh& mesh, const kernels::Backend& backend,
                  std::size_t gradients) {
  if (!takes_turns(options, mesh, backend) || options.bucket_mib > 0) return options.bucket_mib;
  return static_cast<double>(parallel::least_in_turn(options, gradients) * sizeof(float)) / (1 << 20);
}

std::unique_ptr<Update> make_update(const UpdateSetup& setup, std::span<model::Network* const> networks,
                                    const parallel::MicrobatchPlan& plan) {
  const auto& options = setup.recipe.parallel;
  auto shards = shards_for(setup);
  if (!shards) return std::make_unique<WholeUpdate>(setup);
  if (!parallel::row_of(options.strategy).shards_parameters)
    return std::make_unique<ShardedUpdate>(setup, std::move(*shards));
  if (parallel::share_parameters(options, setup.mesh.degrees(), shares_memory(setup.mesh, setup.backend)))
    return std::make_unique<CommonUpdate>(setup, std::move(*shards));
  return std::make_unique<GatheredUpdate>(setup, std::move(*shards), networks, plan);
}

Update::Update(const UpdateSetup& setup)
    : setup_(setup),
      optimizer_(setup.recipe.optim, setup.held.tensors.layout, setup.backend),
      scales_(setup.backend.activation_type() == tensor::DataType::float16) {}

bool Update::is_in_parts() const {
  return setup_.sum.is_divided() && !needs_squares() && !spreads_tensors();
}

bool Update::spreads_tensors() const {
  if (!optim::find_rule(setup_.recipe.optim.name).adapts) return false;
  return setup_.mesh.has_tensor() || cuts_tensors();
}

void Update::allocate(TrainingState&) {
  if (!spreads_tensors()) return;
  const auto own = shard();
  const auto told =
      own.empty() ? setup_.held.reported_elements() : parallel::within(setup_.held.reported_elements(), own);
  trust_.emplace(setup_.recipe.optim, setup_.held, told, own.empty() ? setup_.mesh.replica() : setup_.mesh.world(),
                 setup_.backend, optimizer_.rule());
}

void Update::share(TrainingState&) {}

void Update::adapt(const TrainingState& state) {
  if (trust_) (*trust_)(state, setup_.sum.result());
}

SlicedUpdate::SlicedUpdate(const UpdateSetup& setup, optim::Shards shards) : Update(setup), shards_(std::move(shards)) {
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) counts_.push_back(shards_.counts(part));
  // Elsewhere the parts are not those of the sums, or a device adds up the norm of all gradients, or all ranks decode
  // the same sums.
  scatters_ = counts_.size() == setup.sum.buckets().size() && (setup.backend.memory_is_host() || !needs_squares()) &&
              !setup.recipe.parallel.compression.is_on();
  discards_ = scatters_ && setup.sum.is_divided() &&
              parallel::gives_gradients_back(setup.recipe.parallel, setup.mesh.degrees());
}

parallel::GradientSum::Reduction SlicedUpdate::reduction() {
  if (!scatters_) return {};
  return {.counts = counts_, .discards = discards_};
}

bool SlicedUpdate::cuts_tensors() const {
  return parallel::row_of(setup_.recipe.parallel.strategy).shards_gradients;
}

const std::vector<optim::Elements>& SlicedUpdate::own() const {
  return shards_.of[static_cast<std::size_t>(ranks().rank().value)];
}

void SlicedUpdate::apply(const TrainingState& state, const optim::Elements& elements) {
  const float* const gradients = setup_.sum.result();
  for (std::size_t part = 0; part < state.shard.size(); ++part)
    if (const auto here = optim::common(elements, state.shard[part]); here.count() > 0) {
      auto arenas = state.arenas(gradients, part);
      if (averages_later_) arenas.average = nullptr;
      optimizer_.apply(arenas, here);
    }
}

double SlicedUpdate::finish(const TrainingState&) {
  enter_phase(RankPhase::reduce);
  const Stopwatch watch;
  await_others();
  return watch.seconds();
}

ShardedUpdate::ShardedUpdate(const UpdateSetup& setup, optim::Shards shards) : SlicedUpdate(setup, std::move(shards)) {
  averages_later_ = parallel::codes_changes(setup.recipe.parallel);
  if (averages_later_) changes_.emplace(ranks(), setup.recipe.parallel, setup.held.tensors.layout, shards_);
}

/// The parameters of a bucket are gathered kLag sums later, or after all sums if the update needs them, as for
/// clipping.
parallel::GradientSum::Reduction ShardedUpdate::reduction() {
  constexpr std::size_t kLag = 2;
  const auto& sum = setup_.sum;
  const std::size_t count = counts_.size(), lag = scatters() && is_in_parts() ? kLag : sum.buckets().size();
  auto reduction = SlicedUpdate::reduction();
  reduction.followers = {count, sum.followers_after(lag, count),
                         [this](std::size_t part, const std::stop_token& stop) { gather(part, stop); }};
  return reduction;
}

/// The parameters move to memory that the node's other ranks can read, too.
void ShardedUpdate::allocate(TrainingState& state) {
  if (setup_.backend.memory_is_host()) state.parameters = ranks().allocate(state.parameters.bytes());
  parameters_ = state.parameter_arena();
  if (changes_) {
    state.compression.lacks = tensor::allocate_host(optim::place_in(own(), own().size()) * sizeof(float));
    changes_->set_state(parameters_, state.compression.lacks.as<float>());
  }
  Update::allocate(state);
}

void ShardedUpdate::begin_step(parallel::Compression gradients) {
  updated_ = 0;
  is_exact_ = false;
  if (changes_) changes_->use(gradients);
}

/// An optimizer adapts to the exact parameters.
void ShardedUpdate::adapt(const TrainingState& state) {
  if (changes_ && spreads_tensors()) {
    changes_->begin_update(optimizer_.all());
    is_exact_ = true;
  }
  Update::adapt(state);
}

void ShardedUpdate::gather(std::size_t part, const std::stop_token& stop) {
  if (changes_) return changes_->gather(part, stop);
  gather_slices(ranks(), shards_.parts[part], own()[part], counts_[part], parameters_, stop);
}

void ShardedUpdate::apply(const TrainingState& state, const optim::Elements& elements) {
  if (changes_ && !is_exact_) changes_->begin_update(elements);
  SlicedUpdate::apply(state, elements);
  while (updated_ < shards_.parts.size() && shards_.parts[updated_].first >= elements.first) ++updated_;
  setup_.sum.release_followers(updated_);
}

double ShardedUpdate::finish(const TrainingState& state) {
  const double waited = SlicedUpdate::finish(state);
  const auto arenas = state.arenas(nullptr);
  enter_phase(RankPhase::update);
  for (std::size_t part = 0; part < shards_.parts.size(); ++part) {
    const auto &all = shards_.parts[part], &mine = own()[part];
    if (averages_later_) optimizer_.average(arenas, mine);
    optimizer_.average(arenas, {all.first, mine.first});
    optimizer_.average(arenas, {mine.end, all.end});
  }
  return waited;
}

void CommonUpdate::share(TrainingState& state) {
  const auto move = [&](tensor::Buffer& memory) {
    auto common = ranks().allocate_common(memory.bytes());
    for (const auto& each : state.shard)
      std::ranges::copy(memory.as<float>().subspan(each.first, each.count()), common.as<float>().data() + each.first);
    memory = std::move(common);
  };
  move(state.parameters);
  for (auto& [what, memory] : state.optimizer)
    if (what.kind == optim::StateArena::Kind::average) move(memory);
  ranks().barrier().wait();
}

void CommonUpdate::await_others() {
  ranks().barrier().wait();  // all have updated what all read
}

GatheredUpdate::GatheredUpdate(const UpdateSetup& setup, optim::Shards shards,
                               std::span<model::Network* const> networks, const parallel::MicrobatchPlan& plan)
    : SlicedUpdate(setup, std::move(shards)),
      blocks_(setup.backend, ranks(), shards_, counts_, networks, setup.sum, thread_for(setup)) {
  set_microbatches(plan);
}

parallel::GradientSum::Reduction GatheredUpdate::reduction() {
  auto reduction = SlicedUpdate::reduction();
  reduction.followers = blocks_.followers();
  return reduction;
}

void GatheredUpdate::set_plan(const parallel::MicrobatchPlan& plan) {
  set_microbatches(plan);
  setup_.sum.set_followers(blocks_.followers());
}

void GatheredUpdate::set_microbatches(const parallel::MicrobatchPlan& plan) {
  const auto most = std::ranges::max(plan.ranges, {}, &comm::LeafRange::count).count;
  blocks_.set_microbatches(static_cast<std::size_t>(plan.of(ranks().rank()).count), static_cast<std::size_t>(most));
}

void GatheredUpdate::allocate(TrainingState& state) {
  blocks_.set_arena(state.parameters.as<float>());
  Update::allocate(state);
}

}  // namespace distdl::train
