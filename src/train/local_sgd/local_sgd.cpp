// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <distdl/base/activity.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/train/local_sgd/local_sgd.hpp>
#include <distdl/train/local_sgd/outer_rules.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kFigures = LocalSgd::kMeans.size() + 3;
static_assert(sizeof(LocalSgd::Figures) == kFigures * sizeof(double));

void subtract(std::span<float> from, std::span<const float> what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= what[i];
}

void add(std::span<float> to, std::span<const float> what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

void add(LocalSgd::Figures& to, const LocalSgd::Figures& from) {
  for (std::size_t i = 0; i < to.means.size(); ++i) to.means[i] += from.means[i];
  to.stop += from.stop;
  to.save += from.save;
  to.skipped += from.skipped;
}
}  // namespace

LocalSgd::LocalSgd(const parallel::Options& options, const parallel::Mesh& mesh, kernels::Backend& backend,
                   const tensor::ArenaLayout& layout, Step total)
    : options_(options),
      backend_(backend),
      layout_(layout),
      world_(mesh.world()),
      leaves_(parallel::leaves_of_groups(mesh.degrees().groups, world_.size())),
      cover_(comm::cover(leaves_.ranges.at(static_cast<std::size_t>(world_.rank().value)), leaves_.count)),
      first_(mesh.groups().first),
      figures_(static_cast<std::size_t>(mesh.groups().count)),
      total_(total) {
  for (const auto& node : cover_)
    partials_.emplace_back(&figures_.at(static_cast<std::size_t>(first_of(node))), kFigures, comm::DataType::float64);
}

std::vector<optim::StateArena> LocalSgd::state_arenas() const {
  const OuterRule& rule = rule_of(options_.local_sgd.outer);
  if (!rule.arena) return {};
  return {{rule.arena, optim::StateArena::Kind::moment}};
}

int LocalSgd::first_of(comm::TreeNode node) const {
  return comm::leaves_of(node, leaves_.count).first - first_;
}

void LocalSgd::add_up(comm::TreeNode node, const std::function<void(int to, int from)>& add) const {
  if (comm::leaves_of(node, leaves_.count).count < 2) return;
  const comm::TreeNode left{node.level - 1, 2 * node.index}, right{node.level - 1, 2 * node.index + 1};
  add_up(left, add);
  if (comm::leaves_of(right, leaves_.count).count == 0) return;
  add_up(right, add);
  add(first_of(left), first_of(right));
}

LocalSgd::Figures LocalSgd::means() {
  const auto at = [this](int group) -> Figures& { return figures(static_cast<std::size_t>(group)); };
  for (const auto& node : cover_) add_up(node, [&at](int to, int from) { add(at(to), at(from)); });
  Figures mean;
  world_.all_reduce(leaves_, partials_, comm::Vector(&mean, kFigures, comm::DataType::float64)).wait();
  for (double& value : mean.means) value /= leaves_.count;
  return mean;
}

bool LocalSgd::ends_round(Step done) const {
  return done.value % options_.local_sgd.steps == 0 || done == total_;
}

double LocalSgd::end_round(TrainingState& state, parallel::CompressedSum* compressed) {
  enter_phase(RankPhase::reduce);
  const auto groups = on_host(state);
  const auto arena = [&groups](int group) { return groups.at(static_cast<std::size_t>(group)); };
  std::vector<const float*> partials;
  const bool is_coded =
      compressed && (compressed->in_use() != parallel::Compression::none || compressed->has_residuals());
  // Differences are encoded, because the error of a code is small for small values.
  if (is_coded)
    for (const auto& group : groups) subtract(group, state.parameters.as<float>());
  for (const auto& node : cover_) {
    add_up(node, [&](int to, int from) { add(arena(to), arena(from)); });
    partials.push_back(arena(first_of(node)).data());
  }
  const Stopwatch watch;
  // The groups' parameters are not needed any more.
  if (is_coded)
    (*compressed)(0, partials, arena(0).data(), {});
  else
    add_over_ranks(partials, arena(0).data());
  const double seconds = watch.seconds();
  enter_phase(RankPhase::update);
  step_outwards(state, arena(0).data(), is_coded ? Sums::of_differences : Sums::of_parameters);
  for (const auto& group : state.groups)
    backend_.copy_from_host(group.parameters.data(), state.parameters.data(), state.parameters.bytes());
  return seconds;
}

std::vector<std::span<float>> LocalSgd::on_host(const TrainingState& state) {
  std::vector<std::span<float>> groups;
  for (std::size_t i = 0; i < state.groups.size(); ++i) {
    const auto& parameters = state.groups[i].parameters;
    if (backend_.memory_is_host()) {
      groups.push_back(parameters.as<float>());
      continue;
    }
    if (copies_.size() == i) copies_.push_back(backend_.allocate_staging(parameters.bytes()));
    backend_.copy_to_host(copies_[i].data(), parameters.data(), parameters.bytes());
    groups.push_back(copies_[i].as<float>());
  }
  return groups;
}

void LocalSgd::add_over_ranks(std::span<const float* const> partials, float* result) {
  std::vector<comm::ConstVector> vectors;
  for (const float* const partial : partials) vectors.emplace_back(partial, layout_.size(), comm::DataType::float32);
  world_.all_reduce(leaves_, vectors, comm::Vector(result, layout_.size(), comm::DataType::float32)).wait();
}

/// Statistics, which have no gradients, become their mean in any case.
void LocalSgd::step_outwards(const TrainingState& state, float* sums, Sums what) const {
  const OuterRule &mean = rule_of(parallel::Outer::mean), &rule = rule_of(options_.local_sgd.outer);
  float* const outer = state.parameter_arena();
  float* const kept = rule.arena ? state.optimizer.at(0).memory.as<float>().data() : nullptr;
  const auto groups = static_cast<float>(leaves_.count);
  for (const auto& view : layout_.tensors()) {
    for (std::size_t i = view.offset; i < view.offset + view.count; ++i)
      sums[i] = what == Sums::of_differences ? outer[i] + sums[i] / groups : sums[i] / groups;
    const OuterRule& own = view.role == tensor::Role::parameter ? rule : mean;
    own.step(options_.local_sgd, {outer + view.offset, view.count}, {sums + view.offset, view.count},
             own.arena ? kept + view.offset : nullptr);
  }
}

}  // namespace distdl::train
