// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <distdl/base/errors.hpp>
#include <distdl/train/state/group_state.hpp>

namespace distdl::train {
namespace {
constexpr std::string_view kGroup = "group/";
std::byte no_bytes;  ///< where a target without elements points

/// (groups, shape of the tensor).
tensor::Shape shape_of_groups(const tensor::Shape& shape, std::int64_t groups) {
  tensor::Shape all{groups};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

/// A box of a tensor, in the row of a group.
tensor::Box box_in_row(tensor::Box box, std::int64_t group) {
  box.offset.insert(box.offset.begin(), group);
  box.extent.insert(box.extent.begin(), 1);
  return box;
}

/// A tensor of a group.
struct GroupTensor {
  std::string name;                ///< in a checkpoint
  const tensor::TensorView& view;  ///< in an arena
  std::size_t number;              ///< in the layout
  std::int64_t group;
  std::byte* bytes;
};

void visit_tensors(const TrainingState& state, const tensor::ArenaLayout& layout,
                   const std::function<void(const GroupTensor&)>& visit) {
  for (std::size_t i = 0; i < state.groups.size(); ++i) {
    const auto& group = state.groups[i];
    const auto visit_arena = [&](const std::string& prefix, const tensor::Buffer& memory, bool is_moment) {
      for (std::size_t number = 0; number < layout.tensors().size(); ++number) {
        const auto& view = layout.tensors()[number];
        if (is_moment && view.role != tensor::Role::parameter) continue;
        visit({std::string(kGroup) + prefix + "/" + view.whole_name(), view, number,
               state.first_group + static_cast<std::int64_t>(i),
               static_cast<std::byte*>(memory.data()) + view.offset * sizeof(float)});
      }
    };
    visit_arena("parameter", group.parameters, false);
    for (const auto& [what, memory] : group.optimizer)
      visit_arena(what.name, memory, what.kind == optim::StateArena::Kind::moment);
  }
}

std::string text_of_groups(std::int64_t groups) {
  if (groups == 0) return "no groups";
  return fmt::format("{} group{} (parallel.strategy = \"local_sgd\", parallel.groups = {})", groups,
                     groups == 1 ? "" : "s", groups);
}

[[noreturn]] void refuse(std::int64_t saved, std::int64_t own) {
  constexpr const char* kWaysOut =
      "--partial (checkpoint.partial = true) goes on from the averaged parameters with moments of zeros; or use "
      "another run.dir for a new run";
  throw StorageError(saved == own
                         ? fmt::format("the checkpoint lacks tensors of its groups: {}", kWaysOut)
                         : fmt::format("the checkpoint has the states of {}, but this run has {}: use the same "
                                       "parallel.strategy and parallel.groups; {}",
                                       text_of_groups(saved), text_of_groups(own), kWaysOut),
                     ExitCode::incompatible);
}
}  // namespace

void allocate_groups(TrainingState& state, kernels::Backend& backend, const tensor::ArenaLayout& layout,
                     const std::vector<optim::StateArena>& arenas, const parallel::Mesh& mesh) {
  state.all_groups = mesh.degrees().groups;
  state.first_group = mesh.groups().first;
  state.groups.clear();
  for (int i = 0; i < mesh.groups().count; ++i) allocate(state.groups.emplace_back(), backend, layout, arenas);
}

void begin_groups(TrainingState& state, kernels::Backend& backend) {
  for (const auto& group : state.groups) {
    backend.copy_from_host(group.parameters.data(), state.parameters.data(), state.parameters.bytes());
    for (const auto& [what, memory] : group.optimizer) backend.clear(memory.data(), memory.bytes());
  }
}

const TrainingState& GroupsOnHost::of(const TrainingState& state) {
  if (backend_.memory_is_host() || state.groups.empty()) return state;
  copies_.all_groups = state.all_groups;
  copies_.first_group = state.first_group;
  while (copies_.groups.size() < state.groups.size()) {
    const auto& group = state.groups[copies_.groups.size()];
    auto& copy = copies_.groups.emplace_back();
    copy.parameters = backend_.allocate_staging(group.parameters.bytes());
    for (const auto& [what, memory] : group.optimizer)
      copy.optimizer.push_back({what, backend_.allocate_staging(memory.bytes())});
  }
  return copies_;
}

void GroupsOnHost::visit(const TrainingState& state,
                         const std::function<void(const tensor::Buffer& own, const tensor::Buffer& copy)>& visit) {
  const auto& copies = of(state).groups;
  if (&copies == &state.groups) return;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    visit(state.groups[i].parameters, copies[i].parameters);
    for (std::size_t arena = 0; arena < copies[i].optimizer.size(); ++arena)
      visit(state.groups[i].optimizer[arena].memory, copies[i].optimizer[arena].memory);
  }
}

const TrainingState& GroupsOnHost::read(const TrainingState& state) {
  visit(state,
        [this](const auto& own, const auto& copy) { backend_.copy_to_host(copy.data(), own.data(), own.bytes()); });
  return of(state);
}

void GroupsOnHost::write(const TrainingState& state) {
  visit(state,
        [this](const auto& own, const auto& copy) { backend_.copy_from_host(own.data(), copy.data(), own.bytes()); });
}

std::size_t bytes_of_groups(const TrainingState& state) {
  return state.groups.empty() ? 0 : state.groups.front().bytes() * static_cast<std::size_t>(state.all_groups);
}

std::vector<checkpoint::Slice> group_slices(const TrainingState& state, const tensor::ArenaLayout& layout, int index,
                                            int writers) {
  std::vector<checkpoint::Slice> slices;
  if (index < 0) return slices;
  visit_tensors(state, layout, [&](const GroupTensor& tensor) {
    const auto box = share_of(tensor.view.shape, tensor.number, index, writers);
    if (!box) return;
    const auto shape = shape_of_groups(tensor.view.whole_shape(), state.all_groups);
    for (const auto& [piece, offset] : tensor::pieces_of(tensor.view, *box))
      slices.push_back({tensor.name, tensor::DataType::float32, shape, box_in_row(piece, tensor.group),
                        tensor.bytes + offset * sizeof(float)});
  });
  return slices;
}

GroupTargets::GroupTargets(const TrainingState& state, const tensor::ArenaLayout& layout,
                           std::span<const checkpoint::TensorEntry> found, Misfit misfit) {
  std::map<std::string_view, const checkpoint::TensorEntry*> saved;
  for (const auto& entry : found)
    if (entry.name.starts_with(kGroup) && !entry.shape.empty()) saved.emplace(entry.name, &entry);
  const std::int64_t groups = saved.empty() ? 0 : saved.begin()->second->shape[0];
  fits_ = groups == state.all_groups;
  visit_tensors(state, layout, [&](const GroupTensor& tensor) {
    const auto entry = saved.find(tensor.name);
    const auto shape = shape_of_groups(tensor.view.whole_shape(), state.all_groups);
    fits_ = fits_ && entry != saved.end() && entry->second->shape == shape;
    if (!fits_) return;
    for (const auto& [piece, offset] : tensor::pieces_of(tensor.view, tensor::whole(tensor.view.shape)))
      targets_.push_back({tensor.name, tensor::DataType::float32, shape, box_in_row(piece, tensor.group),
                          tensor.bytes + offset * sizeof(float)});
  });
  if (fits_) return;
  if (misfit == Misfit::refused) refuse(groups, state.all_groups);
  targets_.clear();
  for (const auto& [name, entry] : saved) {
    tensor::Box none = tensor::whole(entry->shape);
    std::ranges::fill(none.extent, 0);
    targets_.push_back({entry->name, entry->dtype, entry->shape, none, &no_bytes});
  }
}

}  // namespace distdl::train
