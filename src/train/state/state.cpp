// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>

#include <distdl/optim/shards.hpp>
#include <distdl/train/state/group_state.hpp>
#include <distdl/train/state/residuals.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {
namespace {
constexpr std::int64_t kSmallTensor = 1 << 16;  ///< elements; below, a tensor is not worth cutting

/// Index of this rank among the writers (the lowest rank of each host), or -1; and how many writers there are.
std::pair<int, int> writer_index(const comm::Communicator& communicator) {
  int index = -1, writers = 0;
  for (int r = 0; r < communicator.size(); ++r) {
    if (communicator.ranks_on_host_of(Rank(r)).front() != Rank(r)) continue;
    if (Rank(r) == communicator.rank()) index = writers;
    ++writers;
  }
  return {index, writers};
}

}  // namespace

float* TrainingState::evaluation_arena() const {
  float* const average = arenas(nullptr).average;
  return average ? average : parameter_arena();
}

optim::Arenas TrainingState::arenas(const float* gradients, std::size_t part) const {
  optim::Arenas all{.parameters = parameter_arena(), .gradients = gradients};
  if (!shard.empty()) all.first = shard[part].first;
  const std::size_t begin = shard.empty() ? 0 : optim::place_in(shard, part);
  std::size_t moments = 0;
  for (const auto& [what, memory] : optimizer) {
    auto* const data = static_cast<float*>(memory.data());
    if (what.kind == optim::StateArena::Kind::average)
      all.average = data;
    else
      all.moments.at(moments++) = data + begin;
  }
  return all;
}

std::size_t TrainingState::bytes() const {
  return parameters.bytes() * (1 + optimizer.size());
}

void allocate(TrainingState& state, kernels::Backend& backend, const tensor::ArenaLayout& layout,
              const std::vector<optim::StateArena>& optimizer, std::vector<optim::Elements> shard,
              bool shards_parameters) {
  const std::size_t bytes = layout.size() * sizeof(float);
  state.shard = std::move(shard);
  state.shards_parameters = shards_parameters;
  const auto memory_of = [&](std::size_t size) {
    return state.in_host_memory ? tensor::allocate_host(size) : backend.allocate(size);
  };
  const auto values = [&] {
    if (!shards_parameters) return memory_of(bytes);
    auto memory = backend.reserve(bytes);
    for (const auto& slice : state.shard)
      backend.commit(std::as_writable_bytes(memory.as<float>().subspan(slice.first, slice.count())));
    return memory;
  };
  state.parameters = values();
  state.optimizer.clear();
  for (const auto& what : optimizer) {
    const bool is_moment = what.kind == optim::StateArena::Kind::moment;
    const bool is_cut = !state.shard.empty() && is_moment;
    const std::size_t own = is_cut ? optim::place_in(state.shard, state.shard.size()) * sizeof(float) : bytes;
    state.optimizer.push_back({what, is_moment ? memory_of(std::max(own, sizeof(float))) : values()});
  }
}

void begin_state(TrainingState& state, kernels::Backend& backend, const StartValues& values) {
  const bool on_host = is_on_host(state, backend), in_place = state.shards_parameters && on_host;
  const std::size_t bytes = in_place ? 0 : state.parameters.bytes();
  const auto start = state.shards_parameters ? tensor::reserve_host(bytes) : tensor::allocate_host(bytes);
  if (!in_place) values.fill(start.as<float>());
  const std::vector<optim::Elements> all{{0, bytes / sizeof(float)}};
  const auto fill = [&](const tensor::Buffer& memory) {
    if (in_place) return values.fill(memory.as<float>());
    if (on_host) {
      std::ranges::copy(start.as<float>(), memory.as<float>().begin());
      return;
    }
    for (const auto& [first, end] : state.shards_parameters ? state.shard : all)
      backend.copy_from_host(static_cast<float*>(memory.data()) + first, static_cast<float*>(start.data()) + first,
                             (end - first) * sizeof(float));
  };
  fill(state.parameters);
  for (const auto& [what, memory] : state.optimizer)
    if (what.kind == optim::StateArena::Kind::average)
      fill(memory);
    else if (on_host)
      std::ranges::fill(memory.as<float>(), 0.0F);
    else
      backend.clear(memory.data(), memory.bytes());
  for (const auto* const memory : {&state.compression.residual, &state.compression.right, &state.compression.lacks})
    std::ranges::fill(memory->as<float>(), 0.0F);
  begin_groups(state, backend);
  state.step = Step(0);
  state.position = state.updates = state.held_updates = 0;
  state.audited.reset();
  state.loss_scale = LossScale::start(backend.activation_type());
}

std::optional<tensor::Box> share_of(const tensor::Shape& shape, std::size_t tensor_number, int index, int writers) {
  tensor::Box box = tensor::whole(shape);
  if (shape.empty() || tensor::element_count(shape) < kSmallTensor || shape[0] < writers) {
    bool mine = static_cast<int>(tensor_number % static_cast<std::size_t>(writers)) == index;
    return mine ? std::optional(box) : std::nullopt;
  }
  std::int64_t first = shape[0] * index / writers, end = shape[0] * (index + 1) / writers;
  box.offset[0] = first;
  box.extent[0] = end - first;
  return box;
}

StateCheckpointer::StateCheckpointer(kernels::Backend& backend, comm::Communicator& communicator,
                                     groups::CommunicatorGroup& group, checkpoint::Store& store,
                                     const model::ModelTensors& tensors, Identity identity,
                                     const std::optional<HeldPart>& part)
    : backend_(backend),
      backend_description_(backend.description()),
      groups_(backend),
      communicator_(communicator),
      group_(group),
      store_(store),
      whole_(tensors),
      tensors_(part ? part->tensors : tensors),
      holders_(part ? part->holders : communicator),
      same_groups_(part ? part->group : nullptr),
      saves_whole_tensors_(!part || part->saves_whole_tensors),
      saves_parts_(!part || part->saves_parts),
      identity_(std::move(identity)) {}

std::vector<StateCheckpointer::Arena> StateCheckpointer::arenas(const TrainingState& state) {
  const auto values = std::span(state.shard).first(state.shards_parameters ? state.shard.size() : 0);
  std::vector<Arena> all{{"parameter/", &state.parameters, false, values}};
  for (const auto& [what, memory] : state.optimizer) {
    const bool moments = what.kind == optim::StateArena::Kind::moment;
    all.push_back({what.name + "/", &memory, moments, moments ? state.shard : values});
  }
  if (state.compression.lacks.bytes() > 0) all.push_back({kLacks, &state.compression.lacks, true, state.shard});
  return all;
}

std::vector<optim::Elements> StateCheckpointer::held_in(const Arena& arena) {
  if (is_reserved(arena)) return {arena.shard.begin(), arena.shard.end()};
  return {{0, arena.memory->bytes() / sizeof(float)}};
}

bool StateCheckpointer::has_values(const Arena& arena, const tensor::TensorView& view) {
  return !arena.moments || view.role == tensor::Role::parameter;
}

namespace {
optim::Elements elements_of(const tensor::TensorView& view) {
  return {view.offset, view.offset + view.count};
}
}  // namespace

std::optional<std::size_t> StateCheckpointer::slice_of(const Arena& arena, const tensor::TensorView& view) {
  for (std::size_t part = 0; part < arena.shard.size(); ++part)
    if (optim::common(arena.shard[part], elements_of(view)).count() > 0) return part;
  return std::nullopt;
}

std::optional<tensor::Box> StateCheckpointer::box_of(const Arena& arena, const tensor::TensorView& view) {
  if (arena.shard.empty()) return tensor::whole(view.shape);
  const auto part = slice_of(arena, view);
  if (!part) return std::nullopt;
  const auto here = optim::common(arena.shard[*part], elements_of(view));
  tensor::Box box = tensor::whole(view.shape);
  if (here.count() == view.count) return box;
  const std::size_t row = view.count / static_cast<std::size_t>(view.shape[0]);
  box.offset[0] = static_cast<std::int64_t>((here.first - view.offset) / row);
  box.extent[0] = static_cast<std::int64_t>(here.count() / row);
  return box;
}

std::vector<std::pair<tensor::Box, std::byte*>> StateCheckpointer::pieces_of(const Arena& arena, std::byte* host,
                                                                             const tensor::TensorView& view,
                                                                             const tensor::Box& box) {
  const auto part = slice_of(arena, view);
  const bool is_packed = part && arena.moments;
  const std::size_t begin = is_packed ? arena.shard[*part].first - optim::place_in(arena.shard, *part) : 0;
  std::vector<std::pair<tensor::Box, std::byte*>> pieces;
  for (const auto& [piece, offset] : tensor::pieces_of(view, box))
    pieces.emplace_back(piece, host + (view.offset + offset - begin) * sizeof(float));
  return pieces;
}

bool StateCheckpointer::saves(const Arena& arena, const tensor::TensorView& view) const {
  return view.role != tensor::Role::borrowed && has_values(arena, view) &&
         (view.part_of ? saves_parts_ : saves_whole_tensors_);
}

std::byte* StateCheckpointer::host_copy(const TrainingState& state, std::size_t index, const Arena& arena) {
  const auto& memory = *arena.memory;
  if (is_on_host(state, backend_)) return static_cast<std::byte*>(memory.data());
  while (staging_.size() <= index)
    staging_.push_back(is_reserved(arena) ? tensor::reserve_host(memory.bytes())
                                          : backend_.allocate_staging(memory.bytes()));
  return static_cast<std::byte*>(staging_[index].data());
}

void StateCheckpointer::add_groups(const TrainingState& state, Part& part) {
  const auto [own, of_group] = writer_index(*same_groups_);
  if (own < 0) return;
  const auto slices = group_slices(groups_.read(state), tensors_.layout, own, of_group);
  part.slices.insert(part.slices.end(), slices.begin(), slices.end());
}

void StateCheckpointer::add_residuals(const TrainingState& state, Part& part) const {
  const auto [index, writers] = writer_index(holders_);
  const auto saves_tensor = [this](const std::string& name) {
    return tensors_.layout.find(name)->part_of ? saves_parts_ : saves_whole_tensors_;
  };
  for (auto&& slices : {residual_slices(state.compression, holders_.rank(), holders_.size(), saves_tensor),
                        factor_slices(state.compression, index, writers, saves_tensor)})
    part.slices.insert(part.slices.end(), slices.begin(), slices.end());
}

StateCheckpointer::Part StateCheckpointer::part_of(const TrainingState& state, Residuals residuals) {
  auto [index, writers] = writer_index(holders_);
  Part part;
  std::size_t arena_number = 0;
  for (auto arena : arenas(state)) {
    if (state.saves_shard) arena.shard = state.shard;
    std::byte* host = host_copy(state, arena_number++, arena);
    if (index < 0 && arena.shard.empty()) continue;
    if (!is_on_host(state, backend_))
      for (const auto& [first, end] : held_in(arena))
        backend_.copy_to_host(reinterpret_cast<float*>(host) + first, static_cast<float*>(arena.memory->data()) + first,
                              (end - first) * sizeof(float));
    for (std::size_t i = 0; i < tensors_.layout.tensors().size(); ++i) {
      const auto& view = tensors_.layout.tensors()[i];
      if (!saves(arena, view)) continue;
      const auto box = arena.shard.empty() ? share_of(view.shape, i, index, writers) : box_of(arena, view);
      if (!box) continue;
      for (const auto& [piece, bytes] : pieces_of(arena, host, view, *box))
        part.slices.push_back(
            {arena.prefix + view.whole_name(), tensor::DataType::float32, view.whole_shape(), piece, bytes});
    }
  }
  if (residuals == Residuals::saved) add_residuals(state, part);
  if (same_groups_) add_groups(state, part);
  part.state = numbers_of(state);
  return part;
}

checkpoint::State StateCheckpointer::numbers_of(const TrainingState& state) const {
  checkpoint::State numbers;
  numbers.insert(identity_.begin(), identity_.end());
  numbers["position"] = std::to_string(state.position);
  numbers["updates"] = std::to_string(state.updates);
  if (state.held_updates > 0) numbers[kHeldUpdates] = std::to_string(state.held_updates);
  if (state.audited) numbers[checkpoint::kAuditedState] = std::to_string(state.audited->value);
  if (state.best) numbers[kBestState] = to_text(*state.best);
  if (backend_.activation_type() == tensor::DataType::float16) {
    numbers["loss_scale.exponent"] = std::to_string(state.loss_scale.exponent);
    numbers["loss_scale.good_steps"] = std::to_string(state.loss_scale.good_steps);
  }
  numbers["backend"] = backend_description_;
  return numbers;
}

}  // namespace distdl::train
