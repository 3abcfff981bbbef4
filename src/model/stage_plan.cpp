// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include <distdl/kernels/layer_flops.hpp>
#include <distdl/model/row_slices.hpp>
#include <distdl/model/sliced_head.hpp>
#include <distdl/model/stage_plan.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kLine = 16;  // floats; each tensor of an arena begins on a line

/// The type of a batch: numbers stay numbers, other samples get the type of activations.
tensor::DataType sample_type(const Description& model, const Wiring& wiring, tensor::DataType activations) {
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (wiring.layers[i].from == Wiring::kSample && std::holds_alternative<kernels::Embedding>(model.layers[i].spec))
      return tensor::DataType::int32;
  return activations;
}

class Planner {
 public:
  Planner(const Description& model, const ModelTensors& tensors, std::int64_t samples, StageLayers& layers)
      : model_(model),
        tensors_(tensors),
        samples_(samples),
        layers_(layers),
        wiring_(wire(model, samples)),
        sliced_(sliced_outputs(model, wiring_)) {
    plan_.first_layer = tensors.layers.first;
    plan_.layout_size = tensors.layout.size();
    plan_.has_loss = tensors.layers.end == model.layers.size();
    plan_.rows = model.rows;
  }

  StagePlan plan(bool recomputes, std::span<const LayerMemory> sizes) {
    plan_sample();
    add_stages();
    place_tensors();
    plan_shards();
    if (plan_.has_some_rows()) plan_rows();
    place_outputs();
    plan_activations(recomputes, sizes);
    plan_gradients();
    return std::move(plan_);
  }

 private:
  const NamedLayer& layer_of(std::size_t stage) const { return model_.layers[before_ + stage]; }

  void plan_sample() {
    tensor::Shape shape = model_.sample;
    shape.insert(shape.begin(), samples_);
    plan_.sample = kernels::dense(shape, sample_type(model_, wiring_, layers_.activation_type()));
    const std::size_t given = kernels::dense(shape).bytes;
    if (plan_.reads_samples() && plan_.sample.bytes < given) plan_.given_bytes = given;
  }

  void add_stages() {
    const auto& [first, end] = tensors_.layers;
    stages_.reserve(end - first + 1);
    if (!plan_.reads_samples()) add_input();
    before_ = first - stages_.size();
    for (std::size_t i = first; i < end; ++i) add_stage(i);
  }

  /// The layers before this part determine only the format of what it gets: a backend's layers choose theirs by their
  /// input's.
  void add_input() {
    std::vector<kernels::ActivationFormat> formats;
    for (std::size_t i = 0; i < plan_.first_layer; ++i) {
      const int from = wiring_.layers[i].from;
      formats.push_back(
          layers_.output_of(model_.layers[i].spec, from == Wiring::kSample ? plan_.sample : formats[from]));
    }
    Stage& stage = stages_.emplace_back();
    stage.has_layer = false;
    stage.format = formats.back();
  }

  void add_stage(std::size_t number) {
    const kernels::LayerSpec& spec = model_.layers[number].spec;
    const int before = static_cast<int>(before_);
    const int from = wiring_.layers[number].from, plus = wiring_.layers[number].plus;
    const auto& input = from == Wiring::kSample ? plan_.sample : stages_[from - before].format;
    Stage& stage = stages_.emplace_back();
    added_.resize(stages_.size());
    added_.back() = &layers_.add(spec, input, is_in_slices(number, input));
    stage.format = added_.back()->output();
    stage.is_by_rows = plan_.has_some_rows() && sliced_[number] && is_by_rows(spec);
    stage.weights_read_all_rows = stage.is_by_rows && RowSlices::weights_read_all_rows(spec);
    stage.flops = kernels::flops_of(spec, input.shape).forward;
    if (stage.is_by_rows)
      stage.flops *= static_cast<double>(model_.rows.count) / static_cast<double>(model_.rows.slices);
    if (from != Wiring::kSample) stage.from = from - before;
    if (plus == Wiring::kNothing) return;
    stage.plus = plus - before;
    const auto& other = stages_[stage.plus].format;
    stage.plus_has_other_layout = !layers_.same_layout(stage.format, other);
    if (stage.plus_has_other_layout)
      plan_.converted_bytes =
          std::max({stage.format.elements() * sizeof(float), other.elements() * sizeof(float), plan_.converted_bytes});
  }

  /// Without parameters a layer by rows needs no slices, unless this rank has some only.
  bool is_in_slices(std::size_t number, const kernels::ActivationFormat& input) const {
    const kernels::LayerSpec& spec = model_.layers[number].spec;
    if (!sliced_[number] || !is_by_rows(spec)) return false;
    const bool sums_rows =
        !RowSlices::weights_read_all_rows(spec) && !kernels::parameters_of(spec, input.shape).empty();
    return sums_rows || plan_.has_some_rows();
  }

  void place_tensors() {
    for (const auto& tensor : tensors_.tensors)
      stages_[tensor.layer - before_].tensors.push_back(
          {tensor.view.offset, tensor.view.count, tensor.elsewhere && tensor.view.role != tensor::Role::borrowed});
  }

  void plan_shards() {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (!stages_[i].has_layer) continue;
      const auto& shards = wiring_.layers[before_ + i].shards;
      if (shards.empty()) continue;
      const bool outputs = layer_of(i).shard->split != Split::outputs;
      (outputs ? stages_[i].outputs_summed : stages_[i].gradients_summed) = shards.size();
      for (std::size_t k = 0; k < shards.size(); ++k) {
        const std::size_t place = static_cast<std::size_t>(shards[k]) - before_;
        Stage& shard = stages_[place];
        shard.shard = k;
        (outputs ? shard.is_summed_later : shard.is_summed_before) = place != i;
      }
      plan_.addends = std::max(plan_.addends, shards.size());
      plan_.addend_bytes = std::max(plan_.addend_bytes, (outputs ? stages_[i] : stages_[stages_[i].from]).format.bytes);
    }
  }

  /// Finds what lies in rows that other ranks have.
  void plan_rows() {
    const RowPart& part = plan_.rows;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      stage.is_sliced = sliced_[before_ + i];
      if (stage.format.shape.size() != 3 || stage.format.layout) continue;
      const auto [at, count] = rows_of(stage.format.shape, part.slices, part.first, part.count);
      stage.rows = kernels::dense({static_cast<std::int64_t>(count)}, stage.format.type);
      stage.rows_at = at * tensor::size_of(stage.format.type);
      if (stage.is_sliced) plan_.gathered_bytes = std::max(plan_.gathered_bytes, stage.format.bytes);
    }
    for (const Stage& stage : stages_) {
      if (stage.is_by_rows && !stages_[stage.from].is_sliced) stages_[stage.from].gradient_is_gathered = true;
      if (stage.is_sliced && stage.plus >= 0 && !stages_[stage.plus].is_sliced)
        stages_[stage.plus].gradient_is_gathered = true;
    }
  }

  /// A layer that works in place takes the memory of the one before it, if that and all others can do without. One that
  /// is alone in reading its input may be computed by the layer before it. Neither where rows lie apart.
  void place_outputs() {
    std::vector<int> readers(stages_.size());
    for (const Stage& stage : stages_)
      for (int read : {stage.from, stage.plus})
        if (read >= 0) ++readers[read];
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      if (stage.is_summed_later || !stage.has_layer || stage.from == Wiring::kSample) continue;
      Stage& source = stages_[stage.from];
      kernels::Layer* const source_layer = added_[stage.from];
      const bool is_alone = readers[stage.from] == 1 && stage.plus == Wiring::kNothing && !stage.is_by_rows &&
                            !source.is_sliced && source.has_layer;
      if (!is_alone) continue;
      stage.in_place = added_[i]->works_in_place() && !source_layer->backward_reads_output();
      if (source.plus != Wiring::kNothing || source.done_before != kernels::Fusion::none || source.outputs_summed > 0)
        continue;
      stage.done_before = source_layer->fuse(layer_of(i).spec, stage.in_place);
      if (stage.done_before != kernels::Fusion::none) source.fused = i;
    }
  }

  /// The input of a part is not computed here: for its layers it is what a sample is for others.
  void plan_activations(bool recomputes, std::span<const LayerMemory> sizes) {
    const std::size_t first = plan_.reads_samples() ? 0 : 1;
    std::vector<LayerMemory> layers;
    layers.reserve(stages_.size());
    for (std::size_t i = first; i < stages_.size(); ++i) {
      Stage& stage = stages_[i];
      stage.workspace = added_[i]->workspace();
      const auto place = [&](int read) { return read < 0 ? read : read - static_cast<int>(first); };
      layers.push_back({stage.memory_bytes(), stage.workspace, place(stage.from), place(stage.plus), stage.in_place,
                        stage.done_before != kernels::Fusion::none, stage.is_summed_later});
    }
    plan_.activation_bytes = bytes_of(layers);
    if (!recomputes) return;
    const auto given =
        sizes.empty() ? std::span<const LayerMemory>(layers) : sizes.subspan(plan_.first_layer, layers.size());
    Recomputation& blocks = plan_.recomputation;
    blocks = plan_recomputation(layers, equal_sizes({given.begin(), given.end()}));
    plan_.activation_bytes = blocks.bytes();
    for (std::size_t i = first; i < stages_.size(); ++i) {
      if (!blocks.outputs.empty()) stages_[i].shared_output = blocks.outputs[i - first];
      if (!blocks.workspaces.empty()) stages_[i].shared_workspace = blocks.workspaces[i - first];
    }
  }

  /// The sizes by which blocks of layers are chosen: ranks with as many shards have the same. That is the case with the
  /// largest slice of rows.
  std::vector<LayerMemory> equal_sizes(std::vector<LayerMemory> layers) const {
    const std::size_t first = stages_.size() - layers.size();
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (const Stage& stage = stages_[first + i]; stage.is_sliced)
        layers[i].bytes = std::ranges::max(row_counts(stage.format.shape, plan_.rows.slices)) *
                          static_cast<std::size_t>(plan_.rows.count) * tensor::size_of(stage.format.type);
      // Shards of a vocabulary may have different numbers of entries.
      const auto& shard = layer_of(first + i).shard;
      if (!shard || shard->split != Split::outputs || shard->ranges.size() != 1) continue;
      const auto own = static_cast<std::size_t>(shard->ranges.front().count);
      const auto most = static_cast<std::size_t>((shard->extent + shard->count - 1) / shard->count);
      layers[i].bytes = layers[i].bytes / own * most;
    }
    return layers;
  }

  void plan_gradients() {
    order_gradients();
    if (plan_.has_loss) plan_.head_slices = head_slices(model_);
    for (std::size_t k = 0; k < plan_.head_slices; ++k) stages_[stages_.size() - 1 - k].is_used = true;
    std::size_t end = 0;  // of what the stages before write
    for (Stage& stage : stages_) {
      stage.final_from = (end + kLine - 1) / kLine * kLine;
      for (const TensorPlace& place : stage.tensors) end = std::max(end, place.offset + place.count);
    }
    // The parts of one tensor become final together: an optimizer may need all of them.
    std::size_t after = plan_.layout_size;
    for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
      if (stage->shard > 0) stage->final_from = after;
      after = stage->final_from;
    }
  }

  /// The first layer in the backward pass that computes a gradient writes it, and the others add to it.
  void order_gradients() {
    std::set<int> written;
    std::set<std::size_t> offsets;
    for (int i = static_cast<int>(stages_.size()) - 1; i >= 0; --i) {
      Stage& stage = stages_[i];
      if (stage.plus != Wiring::kNothing) stage.plus_adds = !written.insert(stage.plus).second;
      if (stage.from != Wiring::kSample && !stage.is_summed_before)
        stage.from_adds = !written.insert(stage.from).second;
      stage.is_used = static_cast<std::size_t>(i) + 1 == stages_.size() || stage.is_summed_later || written.contains(i);
      if (stage.from_adds) plan_.spare_bytes = std::max(plan_.spare_bytes, stages_[stage.from].held_bytes());
      for (TensorPlace& place : stage.tensors) {
        place.adds = !offsets.insert(place.offset).second || place.adds;
        if (place.adds) plan_.spare_bytes = std::max(plan_.spare_bytes, place.count * sizeof(float));
      }
    }
  }

  const Description& model_;
  const ModelTensors& tensors_;
  std::int64_t samples_;
  StageLayers& layers_;
  Wiring wiring_;
  std::vector<bool> sliced_;  ///< for each layer of the model
  StagePlan plan_;
  std::vector<Stage>& stages_ = plan_.stages;
  std::vector<kernels::Layer*> added_;  ///< layer added by each stage; null: it has none
  std::size_t before_ = 0;              ///< layers of the model that are no stages
};
}  // namespace

StagePlan plan_stages(const Description& model, const ModelTensors& tensors, std::int64_t samples, bool recomputes,
                      std::span<const LayerMemory> sizes, StageLayers& layers) {
  return Planner(model, tensors, samples, layers).plan(recomputes, sizes);
}

std::uint32_t StagePlan::layer_of(std::size_t stage) const {
  return static_cast<std::uint32_t>(first_layer + stage - (reads_samples() ? 0 : 1));
}

StagePlan::Range StagePlan::block_before(std::size_t stage) const {
  const std::size_t skipped = reads_samples() ? 0 : 1, end = stage + 1 - skipped;
  const auto& ends = recomputation.ends;
  const auto found = std::ranges::find(ends, end);
  if (found == ends.end() || end == stages.size() - skipped) return {};
  const std::size_t first = found == ends.begin() ? 0 : *std::prev(found);
  return {first + skipped, end + skipped};
}

int StagePlan::memory_of(std::size_t stage) const {
  const Stage& one = stages[stage];
  if (one.in_place) return memory_of(static_cast<std::size_t>(one.from));
  if (!one.is_summed_later) return static_cast<int>(stage);
  if (one.shard > 0) return -static_cast<int>(one.shard);
  std::size_t sum = stage;
  while (stages[sum].is_summed_later) ++sum;
  return stages[sum].is_sliced ? -static_cast<int>(stages.size()) : memory_of(sum);
}

/// The output of `last` is kept, but what its layer needs beside it is not.
bool StagePlan::is_repeated(std::size_t stage, std::size_t last) const {
  const Stage& one = stages[stage];
  const bool is_in_output = memory_of(stage) == memory_of(last) || stage + stages[last].outputs_summed > last;
  const bool is_kept = is_in_output && !one.fused && one.workspace == 0;
  return one.done_before == kernels::Fusion::none && !is_kept;
}

double StagePlan::repeated_flops() const {
  double flops = 0;
  for (std::size_t last = 0; last < stages.size(); ++last)
    for (auto [one, end] = block_before(last); one < end; ++one)
      if (is_repeated(one, last)) flops += stages[one].flops;
  return flops;
}

std::vector<std::vector<Elements>> StagePlan::reads(bool backward) const {
  std::vector<std::vector<Elements>> all(stages.size());
  const auto add = [&](std::vector<Elements>& to, const Stage& stage) {
    for (const TensorPlace& place : stage.tensors) to.push_back({place.offset, place.offset + place.count});
    if (!stage.fused) return;
    for (const TensorPlace& place : stages[*stage.fused].tensors)
      to.push_back({place.offset, place.offset + place.count});
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    add(all[i], stages[i]);
    if (!backward) continue;
    for (auto [one, end] = block_before(i); one < end; ++one) add(all[i], stages[one]);
  }
  return all;
}

std::vector<std::size_t> StagePlan::places() const {
  std::vector<std::size_t> places{layout_size};
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    if (stage->final_from < places.back()) places.push_back(stage->final_from);
  return places;
}

}  // namespace distdl::model
