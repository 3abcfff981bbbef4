// SPDX-License-Identifier: Apache-2.0
// A network before its first pass: its layers, and the memory of their outputs and gradients.
#include <algorithm>
#include <set>
#include <span>
#include <variant>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/context_chunks.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/row_slices.hpp>
#include <distdl/model/sliced_head.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kLine = 16;  // floats; each tensor of an arena begins on a line

/// Returns the type of samples: integers stay as they are.
tensor::DataType sample_type(const Description& model, const Wiring& wiring, tensor::DataType activations) {
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (wiring.layers[i].from == Wiring::kSample && std::holds_alternative<kernels::Embedding>(model.layers[i].spec))
      return tensor::DataType::int32;
  return activations;
}

/// Plans a few blocks of memory that serve many in turn.
class SharedMemory {
 public:
  /// An unused block: the smallest that fits, else the largest, which grows, else a new one.
  int take(std::size_t bytes) {
    const auto better = [&](const Block& one, const Block& other) {
      if ((one.users > 0) != (other.users > 0)) return one.users == 0;
      if (one.users > 0) return false;
      const bool fits = one.bytes >= bytes;
      if (fits != (other.bytes >= bytes)) return fits;
      return fits ? one.bytes < other.bytes : one.bytes > other.bytes;
    };
    auto best = std::min_element(blocks_.begin(), blocks_.end(), better);
    if (best == blocks_.end() || best->users > 0) best = blocks_.insert(blocks_.end(), Block{});
    *best = {std::max(best->bytes, bytes), 1};
    return static_cast<int>(best - blocks_.begin());
  }
  int share(int block) {
    ++blocks_[block].users;
    return block;
  }
  void leave(int block) { --blocks_[block].users; }
  std::vector<std::size_t> sizes() const {
    std::vector<std::size_t> all;
    for (const Block& block : blocks_) all.push_back(block.bytes);
    return all;
  }

 private:
  struct Block {
    std::size_t bytes = 0;
    int users = 0;
  };
  std::vector<Block> blocks_;
};
}  // namespace

void Network::bind(const Description& model, const ModelTensors& tensors) {
  const Wiring wiring = wire(model, samples_);
  tensor::Shape shape = model.sample;
  shape.insert(shape.begin(), samples_);
  sample_ = kernels::dense(shape, sample_type(model, wiring, backend_.activation_type()));
  if (reads_samples()) batch_ = backend_.allocate(sample_.bytes);
  if (reads_samples() && sample_.bytes < kernels::dense(shape).bytes)
    given_ = backend_.allocate(kernels::dense(shape).bytes);
  const auto& [first, end] = tensors.layers;
  const auto sliced = sliced_outputs(model, wiring);
  stages_.reserve(end - first + 1);
  if (!reads_samples()) bind_before(model, wiring);
  const int before = static_cast<int>(first - stages_.size());  // layers that are no stages
  for (std::size_t i = first; i < end; ++i) {
    const int from = wiring.layers[i].from, plus = wiring.layers[i].plus;
    const auto& input = from == Wiring::kSample ? sample_ : stages_[from - before].format;
    Stage& stage = stages_.emplace_back();
    stage.layer = make_layer(model.layers[i].spec, sliced[i], input);
    stage.format = stage.layer->output();
    stage.is_by_rows = has_some_rows_ && sliced[i] && is_by_rows(model.layers[i].spec);
    stage.weights_read_all_rows = stage.is_by_rows && RowSlices::weights_read_all_rows(model.layers[i].spec);
    stage.flops = kernels::flops_of(model.layers[i].spec, input.shape).forward;
    if (stage.is_by_rows) stage.flops *= static_cast<double>(model.rows.count) / static_cast<double>(model.rows.slices);
    if (from != Wiring::kSample) stage.from = from - before;
    if (plus == Wiring::kNothing) continue;
    stage.plus = plus - before;
    const auto& other = stages_[stage.plus].format;
    if (backend_.same_layout(stage.format, other)) continue;
    const std::size_t elements = std::max({stage.format.elements(), other.elements(), dense_.bytes() / sizeof(float)});
    dense_ = backend_.allocate(elements * sizeof(float));
    rearranged_ = backend_.allocate(elements * sizeof(float));
  }
  for (const auto& tensor : tensors.tensors)
    stages_[tensor.layer - static_cast<std::size_t>(before)].tensors.push_back(
        {tensor.view.offset, tensor.view.count, tensor.elsewhere && tensor.view.role != tensor::Role::borrowed});
  bind_shards(model, wiring, static_cast<std::size_t>(before));
  if (has_some_rows_) bind_rows(sliced, static_cast<std::size_t>(before));
  place_outputs(model);
}

/// Makes a layer. Without parameters a layer by rows needs no slices, unless this rank has some rows only.
std::unique_ptr<kernels::Layer> Network::make_layer(const kernels::LayerSpec& spec, bool is_sliced,
                                                    const kernels::ActivationFormat& input) {
  const bool sums_rows = is_sliced && is_by_rows(spec) && !RowSlices::weights_read_all_rows(spec) &&
                         !kernels::parameters_of(spec, input.shape).empty();
  if (!is_sliced || !is_by_rows(spec) || !(sums_rows || has_some_rows_)) return backend_.layer(spec, input);
  const RowPart all{row_part_.slices, 0, row_part_.slices};
  return std::make_unique<RowSlices>(backend_, spec, input, has_some_rows_ ? row_part_ : all,
                                     [this](const auto& format, auto addends) {
                                       has_some_rows_ ? sum_addends(format, addends) : backend_.sum(format, addends);
                                     });
}

void Network::bind_rows(const std::vector<bool>& sliced, std::size_t before) {
  std::size_t most = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    stage.is_sliced = sliced[before + i];
    if (stage.format.shape.size() != 3 || stage.format.layout) continue;
    const auto [at, count] = rows_of(stage.format.shape, row_part_.slices, row_part_.first, row_part_.count);
    stage.rows = kernels::dense({static_cast<std::int64_t>(count)}, stage.format.type);
    stage.rows_at = at * tensor::size_of(stage.format.type);
    if (stage.is_sliced) most = std::max(most, stage.format.bytes);
  }
  for (const Stage& stage : stages_) {
    if (stage.is_by_rows && !stages_[stage.from].is_sliced) stages_[stage.from].gradient_is_gathered = true;
    if (stage.is_sliced && stage.plus >= 0 && !stages_[stage.plus].is_sliced)
      stages_[stage.plus].gradient_is_gathered = true;
  }
  if (most == 0) return;
  gathered_ = backend_.allocate(most);
  whole_ = backend_.allocate(most);
}

void Network::bind_shards(const Description& model, const Wiring& wiring, std::size_t before) {
  std::size_t most = 0, bytes = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (!stages_[i].layer) continue;
    const auto& shards = wiring.layers[before + i].shards;
    if (shards.empty()) continue;
    const bool outputs = model.layers[before + i].shard->split != Split::outputs;
    (outputs ? stages_[i].outputs_summed : stages_[i].gradients_summed) = shards.size();
    for (std::size_t k = 0; k < shards.size(); ++k) {
      const std::size_t place = static_cast<std::size_t>(shards[k]) - before;
      Stage& shard = stages_[place];
      shard.shard = k;
      (outputs ? shard.is_summed_later : shard.is_summed_before) = place != i;
    }
    most = std::max(most, shards.size());
    bytes = std::max(bytes, (outputs ? stages_[i] : stages_[stages_[i].from]).format.bytes);
  }
  addends_.resize(most);
  for (std::size_t k = 1; k < most; ++k) addends_[k] = partials_.emplace_back(backend_.allocate(bytes)).data();
}

/// Determines the format of this part's input. A backend's layers choose their formats by their input's, so the layers
/// before this part are made for that.
void Network::bind_before(const Description& model, const Wiring& wiring) {
  std::vector<kernels::ActivationFormat> formats;
  for (std::size_t i = 0; i < first_; ++i) {
    const int from = wiring.layers[i].from;
    formats.push_back(
        backend_.layer(model.layers[i].spec, from == Wiring::kSample ? sample_ : formats[from])->output());
  }
  stages_.emplace_back().format = formats.back();
}

/// A layer that works in place takes the memory of the one before it, if that and all others can do without. A layer
/// that is alone in reading its input may be computed by the layer before it. Neither is done where rows lie apart.
void Network::place_outputs(const Description& model) {
  std::vector<int> readers(stages_.size());
  for (const Stage& stage : stages_)
    for (int read : {stage.from, stage.plus})
      if (read >= 0) ++readers[read];
  const std::size_t before = reads_samples() ? 0 : first_ - 1;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    const bool alone = stage.layer && stage.from != Wiring::kSample && readers[stage.from] == 1 &&
                       stage.plus == Wiring::kNothing && !stage.is_by_rows && !stages_[stage.from].is_sliced;
    if (stage.is_summed_later) continue;
    Stage* const source = alone ? &stages_[stage.from] : nullptr;
    stage.in_place = alone && source->layer && stage.layer->works_in_place() && !source->layer->backward_reads_output();
    if (!alone || !source->layer || source->plus != Wiring::kNothing || source->done_before != kernels::Fusion::none)
      continue;
    if (source->outputs_summed > 0) continue;
    stage.done_before = source->layer->fuse(model.layers[before + i].spec, stage.in_place);
    if (stage.done_before != kernels::Fusion::none) source->fused = &stage;
  }
}

/// The input of a part is not computed here: its layers take it as others take a sample.
void Network::allocate_outputs(const Description& model, Activations activations, std::span<const LayerMemory> sizes) {
  const std::size_t first = reads_samples() ? 0 : 1;
  std::vector<LayerMemory> layers;
  layers.reserve(stages_.size());
  for (const Stage& stage : std::span(stages_).subspan(first)) {
    const auto place = [&](int read) { return read < 0 ? read : read - static_cast<int>(first); };
    layers.push_back({memory_bytes(stage), stage.layer->workspace(), place(stage.from), place(stage.plus),
                      stage.in_place, stage.done_before != kernels::Fusion::none, stage.is_summed_later});
  }
  activation_bytes_ = bytes_of(layers);
  if (activations == Activations::recomputed) {
    const auto given = sizes.empty() ? std::span<const LayerMemory>(layers) : sizes.subspan(first_, layers.size());
    recomputation_ = plan_recomputation(layers, equal_sizes({given.begin(), given.end()}, model));
    activation_bytes_ = recomputation_.bytes();
    if (recomputation_.shared > 0) block_ = backend_.allocate(recomputation_.shared);
  }
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const auto shared = [&](const std::vector<std::optional<std::size_t>>& places) {
      const bool is_here = i >= first && !places.empty() && places[i - first].has_value();
      return is_here ? static_cast<std::byte*>(block_.data()) + *places[i - first] : nullptr;
    };
    if (auto* const memory = shared(recomputation_.workspaces)) stages_[i].layer->use_workspace(memory);
    if (!stages_[i].is_summed_later) locate_output(i, shared(recomputation_.outputs));
  }
}

/// Counts with the largest slice of rows.
std::vector<LayerMemory> Network::equal_sizes(std::vector<LayerMemory> layers, const Description& model) const {
  const std::size_t first = stages_.size() - layers.size();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (const Stage& stage = stages_[first + i]; stage.is_sliced)
      layers[i].bytes = std::ranges::max(row_counts(stage.format.shape, row_part_.slices)) *
                        static_cast<std::size_t>(row_part_.count) * tensor::size_of(stage.format.type);
    // Shards of a vocabulary may have different numbers of entries.
    const auto& shard = model.layers[first_ + i].shard;
    if (!shard || shard->split != Split::outputs || shard->ranges.size() != 1) continue;
    const auto own = static_cast<std::size_t>(shard->ranges.front().count);
    const auto most = static_cast<std::size_t>((shard->extent + shard->count - 1) / shard->count);
    layers[i].bytes = layers[i].bytes / own * most;
  }
  return layers;
}

void Network::locate_output(std::size_t i, void* shared) {
  Stage& stage = stages_[i];
  if (!stage.in_place && shared == nullptr) stage.output = backend_.allocate(memory_bytes(stage));
  stage.data = stage.in_place ? stages_[stage.from].data : shared != nullptr ? shared : stage.output.data();
  stage.product = stage.data;
  for (std::size_t k = 0; k < stage.outputs_summed; ++k)
    stages_[i - k].product = addend_of(stages_[i - k], whole_of(stage, stage.data));
  // Their own outputs do not last until backward, which no linear layer computes from them.
  for (std::size_t k = 1; k < stage.outputs_summed; ++k) stages_[i - k].data = stages_[i - k].product;
}

/// The first layer in the backward pass that computes a gradient writes it, and the others add to it.
void Network::plan_gradients() {
  std::set<int> written;
  std::set<std::size_t> offsets;
  std::size_t most = 0;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (stage->plus != Wiring::kNothing) stage->plus_adds = !written.insert(stage->plus).second;
    if (stage->from != Wiring::kSample && !stage->is_summed_before)
      stage->from_adds = !written.insert(stage->from).second;
    const auto number = static_cast<int>(stages_.rend() - stage) - 1;
    stage->is_used = stage == stages_.rbegin() || stage->is_summed_later || written.contains(number);
    if (stage->from_adds) most = std::max(most, held_bytes(stages_[stage->from]));
    for (Place& place : stage->tensors) {
      place.adds = !offsets.insert(place.offset).second || place.adds;
      if (place.adds) most = std::max(most, place.count * sizeof(float));
    }
  }
  if (most > 0) spare_ = backend_.allocate(most);
  std::size_t end = 0;  // end of the elements that the stages before write
  for (Stage& stage : stages_) {
    stage.final_from = (end + kLine - 1) / kLine * kLine;
    for (const Place& place : stage.tensors) end = std::max(end, place.offset + place.count);
  }
  // The parts of one tensor become final together: an optimizer may need all of them.
  std::size_t after = layout_size_;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (stage->shard > 0) stage->final_from = after;
    after = stage->final_from;
  }
}

std::vector<std::size_t> Network::places() const {
  if (chunks_) return chunks_->places();
  std::vector<std::size_t> places{layout_size_};
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage)
    if (stage->final_from < places.back()) places.push_back(stage->final_from);
  return places;
}

/// Each gradient of an output lives from the first layer that writes it, seen from the end, to the layer that made the
/// output. A gradient that is only handed on to the layer that `plus` names, or turned into its input's in place, stays
/// where it is.
void Network::prepare_backward(bool in_pieces) {
  if (chunks_) return chunks_->prepare_backward(in_pieces);
  require<InternalError>(!in_pieces || recomputation_.ends.empty(), "{}",
                         "a backward pass in pieces needs activations");
  SharedMemory memory;
  constexpr int kNone = -1;
  std::vector<int> buffer_of(stages_.size(), kNone);
  const auto give = [&](int stage, int consumer, bool stays) {
    if (stage < 0 || buffer_of[stage] != kNone) return;
    buffer_of[stage] = stays ? memory.share(buffer_of[consumer]) : memory.take(memory_bytes(stages_[stage]));
  };
  const int count = static_cast<int>(stages_.size());
  for (int k = 0; head_ && k < static_cast<int>(head_->size()); ++k) give(count - 1 - k, kNone, false);
  for (int i = count - 1; i >= 0; --i) {
    const Stage& stage = stages_[i];
    give(i, kNone, false);
    for (int k = 1; k < static_cast<int>(stage.outputs_summed); ++k) give(i - k, i, true);
    if (stage.plus >= 0)
      give(stage.plus, i,
           !in_pieces && stage.is_sliced == stages_[stage.plus].is_sliced &&
               backend_.same_layout(stage.format, stages_[stage.plus].format));
    give(stage.from, i, in_pieces ? stage.done_before == kernels::Fusion::whole : stage.in_place);
    // The gradients of the input and of the output are another rank's, too.
    if (!in_pieces && i > 0) memory.leave(buffer_of[i]);
  }
  for (std::size_t bytes : memory.sizes()) gradients_.push_back(backend_.allocate(bytes));
  for (std::size_t i = 0; i < stages_.size(); ++i) stages_[i].gradient = gradients_[buffer_of[i]].data();
}

}  // namespace distdl::model
