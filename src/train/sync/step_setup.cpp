// SPDX-License-Identifier: Apache-2.0
// What a rank has and shares, before its first step.
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/optim/rule.hpp>
#include <distdl/train/state/group_state.hpp>
#include <distdl/train/sync/step.hpp>

namespace distdl::train {
namespace {
int most_microbatches(const parallel::MicrobatchPlan& plan) {
  return std::ranges::max(plan.ranges, {}, &comm::LeafRange::count).count;
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
      sum_(backend, communicator_, plan_, network_.gradient_count(),
           bucket_places(recipe, mesh, held, network_, backend),
           bucket_mib(recipe.parallel, mesh, backend, network_.gradient_count())),
      tail_(backend, sum_, held.tensors.layout.size()),
      auditor_(recipe.train.audit_every, backend, mesh.world(), audited_parts(mesh.degrees()), plan_,
               held.tensors.layout, network_.gradient_count()) {
  held.connect(network_);
  if (devices > 1) sum_.set_devices(microbatches_.replicas().backends());
  // Communicators that were split from one belong to one thread at a time, and the passes use some of them.
  if (mesh.has_parts()) sum_.use_callers_thread();
  if (mesh.has_pipeline()) join_pipeline();
  update_ = make_update({recipe, mesh, backend, held, sum_}, networks(), plan_);
  if (pipeline_ && update_->blocks()) pipeline_->use(*update_->blocks());
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
  return update_->shard();
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
  if (local_) allocate_groups(state, backend_, held_.tensors.layout, update_->state_arenas(), mesh_);
  share_squares();
  update_->allocate(state);
}

void TrainingStep::share_squares() {
  const bool scatters = update_->scatters();
  if (!update_->needs_squares() || (!scatters && !mesh_.has_parts())) return;
  const auto told = scatters ? parallel::within(held_.told(), shard()) : held_.told();
  squares_.emplace(optim::ranges_of_norm(held_.whole.layout), told, scatters ? mesh_.world() : mesh_.replica());
}

}  // namespace distdl::train
