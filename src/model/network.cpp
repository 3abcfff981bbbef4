// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/model/context_chunks.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/sliced_head.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kMostTensors = 4;  // of a layer
constexpr std::size_t kLine = 16;        // floats; each tensor of an arena begins on a line

float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

/// Numbers stay what they are.
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

Network::Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
                 Activations activations, std::span<const LayerMemory> sizes)
    : backend_(backend),
      samples_(samples),
      layout_size_(tensors.layout.size()),
      first_(tensors.layers.first),
      has_totals_(tensors.has_totals),
      has_loss_(tensors.layers.end == model.layers.size()),
      replays_([&backend] { return backend.make_replay(); }),
      changes_([&backend] { return backend.make_replay(); }) {
  terms_ = kernels::loss_terms(model.loss, wire(model, samples).layers.back().output) / samples;
  if (model.context.chunks > 1) {
    chunks_ = std::make_unique<ContextChunks>(backend, model, tensors, samples, activations);
    activation_bytes_ = chunks_->activation_bytes();
    return;
  }
  bind(model, tensors);
  allocate_outputs(activations, sizes);
  plan_gradients();
  totals_ = backend.allocate(3 * sizeof(float));
  if (has_loss()) bind_loss(model);
}

Network::~Network() = default;

void Network::bind_loss(const Description& model) {
  const auto& predictions = stages_.back().format;
  if (is_sliced_head(model)) {
    head_ = std::make_unique<SlicedHead>(backend_, model, predictions);
    for (std::size_t k = 0; k < head_->size(); ++k) (stages_.rbegin() + static_cast<std::ptrdiff_t>(k))->is_used = true;
  } else {
    loss_ = backend_.loss(model.loss, predictions);
  }
  targets_ = backend_.allocate(static_cast<std::size_t>(kernels::target_count(model.loss, predictions.shape)) *
                               sizeof(std::int32_t));
}

void Network::set_exchange_of_shards(const SumShards& sum, const Gather& gather) {
  if (chunks_) return chunks_->set_exchange_of_shards(sum, gather);
  sum_shards_ = sum;
  if (head_) head_->set_gather(gather);
}

void Network::set_exchange_of_chunks(SumShards sum, Gather gather) {
  if (chunks_) chunks_->set_exchange(std::move(sum), std::move(gather));
}

namespace {
Network::Activation activation(void* values, const kernels::ActivationFormat& format) {
  return {static_cast<std::byte*>(values), format.bytes};
}
}  // namespace

Network::Activation Network::input() const {
  return chunks_ ? chunks_->input() : activation(stages_[0].data, stages_[0].format);
}
Network::Activation Network::input_gradient() const {
  return chunks_ ? chunks_->input_gradient() : activation(stages_[0].gradient, stages_[0].format);
}
Network::Activation Network::output() const {
  return chunks_ ? chunks_->output() : activation(stages_.back().data, stages_.back().format);
}
Network::Activation Network::output_gradient() const {
  return chunks_ ? chunks_->output_gradient() : activation(stages_.back().gradient, stages_.back().format);
}

void Network::bind(const Description& model, const ModelTensors& tensors) {
  const Wiring wiring = wire(model, samples_);
  tensor::Shape shape = model.sample;
  shape.insert(shape.begin(), samples_);
  sample_ = kernels::dense(shape, sample_type(model, wiring, backend_.activation_type()));
  if (reads_samples()) batch_ = backend_.allocate(sample_.bytes);
  if (reads_samples() && sample_.bytes < kernels::dense(shape).bytes)
    given_ = backend_.allocate(kernels::dense(shape).bytes);
  const auto& [first, end] = tensors.layers;
  stages_.reserve(end - first + 1);
  if (!reads_samples()) bind_before(model, wiring);
  const int before = static_cast<int>(first - stages_.size());  // layers that are no stages
  for (std::size_t i = first; i < end; ++i) {
    const int from = wiring.layers[i].from, plus = wiring.layers[i].plus;
    const auto& input = from == Wiring::kSample ? sample_ : stages_[from - before].format;
    Stage& stage = stages_.emplace_back();
    stage.layer = backend_.layer(model.layers[i].spec, input);
    stage.format = stage.layer->output();
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
  place_outputs(model);
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

/// The layers before this part determine only the format of what it gets: a backend's layers choose theirs by their
/// input's.
void Network::bind_before(const Description& model, const Wiring& wiring) {
  std::vector<kernels::ActivationFormat> formats;
  for (std::size_t i = 0; i < first_; ++i) {
    const int from = wiring.layers[i].from;
    formats.push_back(
        backend_.layer(model.layers[i].spec, from == Wiring::kSample ? sample_ : formats[from])->output());
  }
  stages_.emplace_back().format = formats.back();
}

/// A layer that works in place takes the memory of the one before it, if that and all others can do without. One that
/// is alone in reading its input may be computed by the layer before it.
void Network::place_outputs(const Description& model) {
  std::vector<int> readers(stages_.size());
  for (const Stage& stage : stages_)
    for (int read : {stage.from, stage.plus})
      if (read >= 0) ++readers[read];
  const std::size_t before = reads_samples() ? 0 : first_ - 1;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    const bool alone =
        stage.layer && stage.from != Wiring::kSample && readers[stage.from] == 1 && stage.plus == Wiring::kNothing;
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

/// The input of a part is not computed here: for its layers it is what a sample is for others.
void Network::allocate_outputs(Activations activations, std::span<const LayerMemory> sizes) {
  const std::size_t first = reads_samples() ? 0 : 1;
  std::vector<LayerMemory> layers;
  layers.reserve(stages_.size());
  for (const Stage& stage : std::span(stages_).subspan(first)) {
    const auto place = [&](int read) { return read < 0 ? read : read - static_cast<int>(first); };
    layers.push_back({stage.format.bytes, stage.layer->workspace(), place(stage.from), place(stage.plus),
                      stage.in_place, stage.done_before != kernels::Fusion::none, stage.is_summed_later});
  }
  activation_bytes_ = bytes_of(layers);
  if (activations == Activations::recomputed) {
    recomputation_ = plan_recomputation(layers, sizes.empty() ? layers : sizes.subspan(first_, layers.size()));
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

void Network::locate_output(std::size_t i, void* shared) {
  Stage& stage = stages_[i];
  if (!stage.in_place && shared == nullptr) stage.output = backend_.allocate(stage.format.bytes);
  stage.data = stage.in_place ? stages_[stage.from].data : shared != nullptr ? shared : stage.output.data();
  stage.product = stage.data;
  for (std::size_t k = 0; k < stage.outputs_summed; ++k) stages_[i - k].product = addend_of(stages_[i - k], stage.data);
  // Their own outputs do not last until backward, which no linear layer computes from them.
  for (std::size_t k = 1; k < stage.outputs_summed; ++k) stages_[i - k].data = stages_[i - k].product;
}

std::span<const Network::Stage> Network::block_before(const Stage& stage) const {
  if (recomputation_.ends.empty()) return {};
  const std::span<const Stage> layers = std::span<const Stage>(stages_).subspan(reads_samples() ? 0 : 1);
  const auto end = static_cast<std::size_t>(&stage + 1 - layers.data());
  const auto found = std::ranges::find(recomputation_.ends, end);
  if (found == recomputation_.ends.end() || end == layers.size()) return {};
  const std::size_t first = found == recomputation_.ends.begin() ? 0 : *std::prev(found);
  return layers.subspan(first, end - first);
}

/// What the last stage put out is kept, but what its layer needs beside it is not.
bool Network::is_repeated(const Stage& one, const Stage& last) {
  const bool is_in_output = one.data == last.data || &one + last.outputs_summed > &last;
  const bool is_kept = is_in_output && one.fused == nullptr && one.layer->workspace() == 0;
  return one.done_before == kernels::Fusion::none && !is_kept;
}

void Network::recompute_before(const Stage& stage) {
  for (const Stage& one : block_before(stage))
    if (is_repeated(one, stage)) forward(one, kernels::Phase::training);
}

const void* Network::rearranged(const Stage& from, const void* values, const Stage& to) {
  const auto &given = from.format, &wanted = to.format;
  if (backend_.same_layout(given, wanted)) return values;
  backend_.to_dense(given, values, floats(dense_));
  backend_.from_dense(wanted, floats(dense_), rearranged_.data());
  return rearranged_.data();
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
    if (stage->from_adds) most = std::max(most, stages_[stage->from].format.bytes);
    for (Place& place : stage->tensors) {
      place.adds = !offsets.insert(place.offset).second || place.adds;
      if (place.adds) most = std::max(most, place.count * sizeof(float));
    }
  }
  if (most > 0) spare_ = backend_.allocate(most);
  std::size_t end = 0;  // of what the stages before write
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

/// Each gradient of an output lives from the first layer that writes it, seen from the end, to that which made the
/// output. What is only handed on to the layer that `plus` names, or turned into its input's in place, stays where it
/// is.
void Network::prepare_backward(bool in_pieces) {
  if (chunks_) return chunks_->prepare_backward(in_pieces);
  require<InternalError>(!in_pieces || recomputation_.ends.empty(), "{}",
                         "a backward pass in pieces needs activations");
  SharedMemory memory;
  constexpr int kNone = -1;
  std::vector<int> buffer_of(stages_.size(), kNone);
  const auto give = [&](int stage, int consumer, bool stays) {
    if (stage < 0 || buffer_of[stage] != kNone) return;
    buffer_of[stage] = stays ? memory.share(buffer_of[consumer]) : memory.take(stages_[stage].format.bytes);
  };
  const int count = static_cast<int>(stages_.size());
  for (int k = 0; head_ && k < static_cast<int>(head_->size()); ++k) give(count - 1 - k, kNone, false);
  for (int i = count - 1; i >= 0; --i) {
    const Stage& stage = stages_[i];
    give(i, kNone, false);
    for (int k = 1; k < static_cast<int>(stage.outputs_summed); ++k) give(i - k, i, true);
    if (stage.plus >= 0)
      give(stage.plus, i, !in_pieces && backend_.same_layout(stage.format, stages_[stage.plus].format));
    give(stage.from, i, in_pieces ? stage.done_before == kernels::Fusion::whole : stage.in_place);
    // The gradients of the input and of the output are another rank's, too.
    if (!in_pieces && i > 0) memory.leave(buffer_of[i]);
  }
  for (std::size_t bytes : memory.sizes()) gradients_.push_back(backend_.allocate(bytes));
  for (std::size_t i = 0; i < stages_.size(); ++i) stages_[i].gradient = gradients_[buffer_of[i]].data();
}

void Network::set_before_reads(BeforeReads before) {
  require<InternalError>(!chunks_, "{}", "a model of chunks reads parameters that are not there");
  before_reads_ = std::move(before);
}

void Network::load_parameters(const float* arena) {
  if (std::exchange(parameters_, arena) != arena) replays_.forget();
  if (chunks_) return chunks_->load_parameters(arena);
  if (before_reads_) return;
  for (const auto& stage : stages_) load_parameters(stage);
}

void Network::load_parameters(const Stage& stage) {
  if (stage.tensors.empty()) return;
  std::array<const float*, kMostTensors> pointers{};
  std::transform(stage.tensors.begin(), stage.tensors.end(), pointers.begin(),
                 [&](const Place& place) { return parameters_ + place.offset; });
  stage.layer->load_parameters({pointers.data(), stage.tensors.size()});
}

std::vector<std::vector<Network::Elements>> Network::reads(bool backward) const {
  std::vector<std::vector<Elements>> all(stages_.size());
  const auto add = [](std::vector<Elements>& to, const Stage& stage) {
    for (const Place& place : stage.tensors) to.push_back({place.offset, place.offset + place.count});
    if (stage.fused == nullptr) return;
    for (const Place& place : stage.fused->tensors) to.push_back({place.offset, place.offset + place.count});
  };
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    add(all[i], stages_[i]);
    if (!backward) continue;
    for (const Stage& one : block_before(stages_[i])) add(all[i], one);
  }
  return all;
}

void Network::share_parameters(const Network& other) {
  for (std::size_t i = 0; i < stages_.size(); ++i)
    if (!stages_[i].tensors.empty()) stages_[i].layer->share_parameters(*other.stages_[i].layer);
}

void Network::change_parameters(const std::function<void()>& change) {
  changes_.run(parameters_, 1, [this, &change] {
    change();
    load_parameters(parameters_);
  });
}

void Network::set_batch(const void* samples, const void* targets) {
  if (chunks_) return chunks_->set_batch(samples, targets);
  if (has_loss()) backend_.copy_from_host(targets_.data(), targets, targets_.bytes());
  if (!reads_samples()) return;
  const tensor::Buffer& given = given_.bytes() > 0 ? given_ : batch_;
  backend_.copy_from_host(given.data(), samples, given.bytes());
  if (given_.bytes() > 0) backend_.from_dense(sample_, floats(given_), batch_.data());
}

const void* Network::input_of(const Stage& stage) const {
  return stage.from == Wiring::kSample ? batch_.data() : stages_[stage.from].data;
}

void Network::forward(kernels::Phase phase) {
  if (chunks_) return chunks_->forward(phase);
  for (const Stage& stage : stages_) {
    if (!stage.layer || stage.done_before != kernels::Fusion::none) continue;
    if (before_reads_) {
      before_reads_(false, static_cast<std::size_t>(&stage - stages_.data()));
      load_parameters(stage);
      if (stage.fused != nullptr) load_parameters(*stage.fused);
    }
    forward(stage, phase);
  }
}

void Network::forward(const Stage& stage, kernels::Phase phase) {
  if (stage.fused != nullptr) return stage.layer->forward_fused(input_of(stage), stage.data, stage.fused->data, phase);
  stage.layer->forward(input_of(stage), stage.product, phase);
  if (stage.outputs_summed > 0) add_shards(stage.format, stage.data, stage.outputs_summed);
  if (stage.plus == Wiring::kNothing) return;
  const Stage& other = stages_[stage.plus];
  backend_.add(stage.format, stage.data, rearranged(other, other.data, stage));
}

void Network::forward_backward(float* gradients, float scale, const Finished& finished) {
  if (chunks_) return pass(gradients, scale, finished);
  if (gradients_.empty()) prepare_backward(false);
  if (finished && backend_.memory_is_host()) return pass(gradients, scale, finished);
  const std::pair to(gradients, scale);
  replays_.run(gradients, scale,
               [this, &to] { pass(to.first, to.second, {}); });  // std::function has room for just that
}

void Network::pass(float* gradients, float scale, const Finished& finished) {
  forward(kernels::Phase::training);
  backward(gradients, scale, finished);
}

void Network::compute_loss(float scale, float* totals, bool with_gradients) {
  const auto gradient = [&](const Stage& stage) { return with_gradients ? stage.gradient : nullptr; };
  const Stage& last = stages_.back();
  if (loss_) loss_->forward_backward(last.data, targets_.data(), scale, gradient(last), totals);
  if (!head_) return;
  std::vector<SlicedHead::Slice> slices;
  for (const Stage& stage : std::span<const Stage>(stages_).last(head_->size()))
    slices.push_back({stage.data, gradient(stage)});
  head_->forward_backward(slices, targets_.data(), scale, totals);
}

void Network::prepare_gradients(Stage& stage) {
  if (!stage.is_used) backend_.clear(stage.gradient, stage.format.bytes);
  if (stage.plus != Wiring::kNothing) backward_plus(stage);
}

void Network::backward_layer(Stage& stage, const std::function<void()>& weights) {
  prepare_gradients(stage);
  // backward_input() first, since some layers then know the gradients of their weights, but not where it overwrites dy.
  const bool overwrites = stage.from != Wiring::kSample && stages_[stage.from].gradient == stage.gradient;
  if (overwrites) weights();
  backward_input(stage);
  if (!overwrites) weights();
}

void Network::backward(float* gradients, float scale, const Finished& finished) {
  if (chunks_) return chunks_->backward(gradients, scale, finished);
  float* tail = gradients + layout_size_;
  if (has_totals_) backend_.fill(tail, kTail, 0.0f);
  compute_loss(scale, tail + kLossAt);
  std::size_t final_from = layout_size_;
  if (finished) finished(final_from);
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    const auto weights = [&] { backward_weights(*stage, gradients); };
    if (before_reads_) before_reads_(true, static_cast<std::size_t>(&*stage - stages_.data()));
    recompute_before(*stage);
    backward_layer(*stage, std::cref(weights));  // for which a std::function has room
    if (finished && stage->final_from < final_from) finished(final_from = stage->final_from);
  }
}

void Network::backward_input(float scale) {
  if (chunks_) return chunks_->backward_input(scale);
  compute_loss(scale, floats(totals_) + kLossAt);
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    prepare_gradients(*stage);
    backward_input(*stage);
  }
}

void Network::backward_weights(float* gradients) {
  if (chunks_) return chunks_->backward_weights(gradients);
  float* tail = gradients + layout_size_;
  if (has_totals_) backend_.fill(tail, kTail, 0.0f);
  if (has_loss()) backend_.copy(tail, totals_.data(), totals_.bytes());
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) backward_weights(*stage, gradients);
}

void Network::backward_plus(Stage& stage) {
  Stage& other = stages_[stage.plus];
  const void* const gradient = rearranged(stage, stage.gradient, other);
  const auto& format = other.format;
  if (stage.plus_adds)
    backend_.add(format, other.gradient, gradient);
  else if (gradient != other.gradient)
    backend_.copy(other.gradient, gradient, format.bytes);
}

void Network::backward_weights(Stage& stage, float* gradients) {
  if (stage.tensors.empty()) return;
  std::array<float*, kMostTensors> pointers{};
  std::transform(stage.tensors.begin(), stage.tensors.end(), pointers.begin(),
                 [&](const Place& place) { return place.adds ? floats(spare_) : gradients + place.offset; });
  stage.layer->backward_weights(input_of(stage), stage.gradient, {pointers.data(), stage.tensors.size()});
  for (const Place& place : stage.tensors)
    if (place.adds) backend_.add(gradients + place.offset, floats(spare_), place.count);
}

void Network::backward_input(Stage& stage) {
  if (!stage.layer || stage.from == Wiring::kSample || stage.done_before == kernels::Fusion::whole) return;
  const Stage& before = stages_[stage.from];
  void* const gradient = stage.from_adds ? spare_.data() : before.gradient;
  const bool is_shard = stage.is_summed_before || stage.gradients_summed > 0;
  stage.layer->backward_input(input_of(stage), stage.data, stage.gradient,
                              is_shard ? addend_of(stage, gradient) : gradient);
  if (stage.gradients_summed > 0) add_shards(before.format, gradient, stage.gradients_summed);
  if (stage.from_adds) backend_.add(before.format, before.gradient, spare_.data());
}

void Network::add_shards(const kernels::ActivationFormat& format, void* sum, std::size_t shards) {
  addends_[0] = sum;
  const auto addends = std::span(addends_).first(shards);
  if (sum_shards_) return sum_shards_(format, addends);
  backend_.sum(format, addends);
}

std::vector<float> Network::logits() {
  require<InternalError>(!chunks_ && !head_, "{}", "the logits of chunks of sequences or slices of classes lie apart");
  forward(kernels::Phase::evaluation);
  const auto& last = stages_.back();
  const auto& format = last.format;
  const auto count = static_cast<std::size_t>(tensor::element_count(format.shape));
  if (dense_logits_.bytes() == 0) dense_logits_ = backend_.allocate(count * sizeof(float));
  backend_.to_dense(format, last.data, floats(dense_logits_));
  std::vector<float> result(count);
  backend_.copy_to_host(result.data(), dense_logits_.data(), count * sizeof(float));
  return result;
}

Totals Network::evaluate() {
  forward(kernels::Phase::evaluation);
  return totals();
}

Totals Network::totals() {
  if (chunks_) return chunks_->totals();
  compute_loss(1.0f, floats(totals_), false);
  float host[kTotals];
  backend_.copy_to_host(host, totals_.data(), sizeof host);
  return {host[kLossAt], host[kCorrectAt], host[kCountAt]};
}

}  // namespace distdl::model
