// SPDX-License-Identifier: Apache-2.0
// What a rank has and shares, before its first step.
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/train/state/group_state.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {
namespace {
/// Where each rank gives up what others need, the ranks also share the sums over a tensor to which an optimizer adapts.
bool cuts_tensors(const Recipe& recipe) {
  return parallel::shards_gradients(recipe.parallel.strategy);
}

/// The parts are what of the buckets is parameters.
std::optional<optim::Shards> shards_for(const Recipe& recipe, const tensor::ArenaLayout& layout, int ranks,
                                        const std::vector<parallel::Bucket>& buckets) {
  if (!parallel::shards_moments(recipe.parallel.strategy) || ranks == 1) return std::nullopt;
  std::vector<optim::Elements> parts;
  parts.reserve(buckets.size());
  for (const auto& bucket : buckets) parts.push_back({bucket.first, std::min(bucket.end, layout.size())});
  if (cuts_tensors(recipe)) return optim::shards_of(optim::Borders::of_rows, layout, ranks, std::move(parts));
  return optim::shards_of(recipe.optim, layout, ranks, std::move(parts));
}

/// Whether replicas can read one arena.
bool shares_memory(const parallel::Mesh& mesh, const kernels::Backend& backend) {
  return backend.memory_is_host() && mesh.data().shares_memory();
}

/// On a device gradients do not, but parameters do.
bool takes_turns(const parallel::Options& options, const parallel::Mesh& mesh, const kernels::Backend& backend) {
  if (!backend.memory_is_host() && options.strategy != parallel::Strategy::sharded_parameters) return false;
  return parallel::takes_turns(options, mesh.degrees(), shares_memory(mesh, backend));
}

/// Where buckets may begin. Ranks that hold the model together sum all gradients at once, after the backward pass, when
/// the connections are free, and so do ranks with devices, unless buckets take turns in memory.
std::vector<std::size_t> places_for(const Recipe& recipe, const parallel::Mesh& mesh, const HeldModel& held,
                                    const model::Network& network, const kernels::Backend& backend) {
  if (!mesh.has_parts() && backend.memory_is_host()) return network.places();
  if (!takes_turns(recipe.parallel, mesh, backend)) return {};
  return parallel::begins_of_tensors(held.tensors.layout);
}

int most_microbatches(const parallel::MicrobatchPlan& plan) {
  return std::ranges::max(plan.ranges, {}, &comm::LeafRange::count).count;
}

/// Where buckets take turns in memory, the key is not left to the costs of communication.
double bucket_mib_for(const parallel::Options& options, const parallel::Mesh& mesh, const kernels::Backend& backend,
                      std::size_t gradients) {
  if (!takes_turns(options, mesh, backend) || options.bucket_mib > 0) return options.bucket_mib;
  return static_cast<double>(parallel::least_in_turn(options, gradients) * sizeof(float)) / (1 << 20);
}

bool all_labels_count(const kernels::LossSpec& loss) {
  const auto* const classes = std::get_if<kernels::CrossEntropy>(&loss);
  return classes == nullptr || !classes->ignore;
}
}  // namespace

TrainingStep::TrainingStep(const Recipe& recipe, const parallel::Mesh& mesh, kernels::Backend& backend,
                           const parallel::MicrobatchPlan& plan, const HeldModel& held, Step total,
                           std::int64_t devices, const std::optional<parallel::Cluster>& cluster)
    : recipe_(recipe),
      mesh_(mesh),
      held_(held),
      communicator_(mesh.summing()),
      backend_(backend),
      plan_(mesh.has_groups() ? parallel::plan_of_group(recipe.parallel, communicator_.size()) : plan),
      range_(plan_.of(communicator_.rank())),
      rank_(communicator_.rank()),
      total_(total),
      microbatches_(recipe, backend, held, mesh.world().rank(), plan.microbatches, plan.microbatch_size, devices),
      network_(microbatches_.network()),
      sum_(backend, communicator_, plan_, network_.gradient_count(), places_for(recipe, mesh, held, network_, backend),
           bucket_mib_for(recipe.parallel, mesh, backend, network_.gradient_count())),
      tail_(backend, sum_, held.tensors.layout.size()),
      optimizer_(recipe.optim, held.tensors.layout, backend),
      auditor_(recipe.train.audit_every, backend, mesh.world(), audited_parts(mesh.degrees()), plan_,
               held.tensors.layout, network_.gradient_count()) {
  held.connect(network_);
  if (devices > 1) sum_.set_devices(microbatches_.replicas().backends());
  // Communicators that were split from one belong to one thread at a time, and the passes use some of them.
  if (mesh.has_parts()) sum_.use_callers_thread();
  if (mesh.has_pipeline()) join_pipeline();
  divide_update(held.tensors.layout);
  if (cluster) {
    server_.emplace(recipe, mesh, *cluster, held.tensors.layout, plan_,
                    static_cast<double>(plan_.global_batch() * network_.terms()), total);
  }
  if (mesh.has_groups()) local_.emplace(recipe.parallel, mesh, backend, held.tensors.layout, total);
  if (recipe.parallel.compression != parallel::Compression::none && !server_) compress_sums();
}

/// A round of local SGD ends with one sum of all ranks.
void TrainingStep::compress_sums() {
  const auto& layout = held_.tensors.layout;
  const parallel::Bucket all{0, layout.size()};
  if (local_) {
    compression_.emplace(recipe_.parallel, recipe_.optim, mesh_.world(), backend_, layout, std::span(&all, 1),
                         all_labels_count(held_.model.loss));
    return;
  }
  compression_.emplace(recipe_.parallel, recipe_.optim, communicator_, backend_, layout, sum_.buckets(),
                       all_labels_count(held_.model.loss));
  sum_.compress_with(compression_->sum());
}

void TrainingStep::divide_update(const tensor::ArenaLayout& layout) {
  shards_ = shards_for(recipe_, layout, communicator_.size(), sum_.buckets());
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
  shards_parameters_ = true;
  if (parallel::share_parameters(recipe_.parallel, mesh_.degrees(), shares_memory(mesh_, backend_)))
    return;  // see share()
  const auto all = networks();
  // Only one thread may use a device.
  const bool is_alone = mesh_.has_parts() || !backend_.memory_is_host();
  const auto thread = is_alone ? ParameterBlocks::Thread::of_caller : ParameterBlocks::Thread::of_sums;
  blocks_.emplace(backend_, communicator_, *shards_, counts_, all, sum_, thread);
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

const float* TrainingStep::on_device(const float* arena) {
  if (device_parameters_.bytes() == 0) return arena;
  backend_.copy_from_host(device_parameters_.data(), arena, device_parameters_.bytes());
  return device_parameters_.as<float>().data();
}

void TrainingStep::load(const float* arena) {
  if (pipeline_) return pipeline_->load_parameters(arena);
  auto& replicas = microbatches_.replicas();
  replicas.run([&](std::size_t device) { replicas[device].network->load_parameters(arena); });
}

std::vector<optim::Elements> TrainingStep::shard() const {
  if (server_) return server_->shard();
  if (!shards_) return {};
  return shards_->of[static_cast<std::size_t>(rank_.value)];
}

void TrainingStep::allocate(TrainingState& state) {
  if (has_state_in_host_memory() && !backend_.memory_is_host()) {
    device_parameters_ = backend_.allocate(state.parameters.bytes());
    if (server_) device_gradients_ = backend_.allocate(network_.gradient_count() * sizeof(float));
  }
  if (server_) return server_->allocate(state);
  sum_.allocate();
  if (pipeline_) pipeline_->allocate();
  if (!backend_.memory_is_host()) {  // what ranks exchange within a replica lies there, too
    if (mesh_.has_tensor()) mesh_.tensor().use(backend_.accelerator());
    if (mesh_.has_context()) mesh_.context().use(backend_.accelerator());
  }
  if (compression_) compression_->allocate(state);
  if (local_) allocate_groups(state, backend_, held_.tensors.layout, optimizer_.state(), mesh_);
  if (blocks_)
    blocks_->set_arena(state.parameters.as<float>());
  else if (shards_ && !has_common_arena() && backend_.memory_is_host())
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
  return mesh_.has_tensor() || (shards_ && cuts_tensors(recipe_));
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

}  // namespace distdl::train
