// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/model/context_chunks.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/row_slices.hpp>
#include <distdl/model/sliced_head.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kMostTensors = 4;  // most tensors of a layer

float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}
}  // namespace

Network::Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
                 Activations activations, std::span<const LayerMemory> sizes)
    : backend_(backend),
      samples_(samples),
      layout_size_(tensors.layout.size()),
      first_(tensors.layers.first),
      has_totals_(tensors.has_totals),
      has_loss_(tensors.layers.end == model.layers.size()),
      row_part_(model.rows),
      has_some_rows_(model.rows.count < model.rows.slices),
      replays_([&backend] { return backend.make_replay(); }),
      changes_([&backend] { return backend.make_replay(); }) {
  terms_ = kernels::loss_terms(model.loss, wire(model, samples).layers.back().output) / samples;
  if (model.context.chunks > 1) {
    chunks_ = std::make_unique<ContextChunks>(backend, model, tensors, samples, activations);
    activation_bytes_ = chunks_->activation_bytes();
    return;
  }
  bind(model, tensors);
  allocate_outputs(model, activations, sizes);
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

void Network::set_exchange_of_shards(const Exchange& exchange) {
  if (chunks_) return chunks_->set_exchange_of_shards(exchange);
  exchange_ = exchange;
  if (head_) head_->set_gather(exchange.gather);
}

void Network::set_exchange_of_chunks(SumShards sum, Gather gather) {
  if (chunks_) chunks_->set_exchange(std::move(sum), std::move(gather));
}

namespace {
Network::Activation activation(void* values, std::size_t bytes) {
  return {static_cast<std::byte*>(values), bytes};
}
}  // namespace

Network::Activation Network::input() const {
  return chunks_ ? chunks_->input() : activation(stages_[0].data, held_bytes(stages_[0]));
}
Network::Activation Network::input_gradient() const {
  return chunks_ ? chunks_->input_gradient() : activation(stages_[0].gradient, held_bytes(stages_[0]));
}
Network::Activation Network::output() const {
  return chunks_ ? chunks_->output() : activation(stages_.back().data, held_bytes(stages_.back()));
}
Network::Activation Network::output_gradient() const {
  return chunks_ ? chunks_->output_gradient() : activation(stages_.back().gradient, held_bytes(stages_.back()));
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

/// True if the layer runs again. The output of the last stage is kept, but not the values that its layer needs beside
/// it.
bool Network::is_repeated(const Stage& one, const Stage& last) {
  const bool is_in_output = one.data == last.data || &one + last.outputs_summed > &last;
  const bool is_kept = is_in_output && one.fused == nullptr && one.layer->workspace() == 0;
  return one.done_before == kernels::Fusion::none && !is_kept;
}

void Network::recompute_before(const Stage& stage) {
  for (const Stage& one : block_before(stage))
    if (is_repeated(one, stage)) forward(one, kernels::Phase::training);
}

double Network::repeated_flops() const {
  if (chunks_) return chunks_->repeated_flops();
  double flops = 0;
  for (const Stage& last : stages_)
    for (const Stage& one : block_before(last))
      if (is_repeated(one, last)) flops += one.flops;
  return flops;
}

std::size_t Network::workspace_bytes() const {
  std::size_t bytes = chunks_ ? chunks_->workspace_bytes() : 0;
  for (const auto* buffers : {&gradients_, &partials_})
    for (const auto& buffer : *buffers) bytes += buffer.bytes();
  for (const auto* buffer :
       {&batch_, &given_, &targets_, &totals_, &dense_logits_, &spare_, &gathered_, &whole_, &dense_, &rearranged_})
    bytes += buffer->bytes();
  return bytes;
}

const void* Network::rearranged(const Stage& from, const void* values, const Stage& to) {
  const auto &given = from.format, &wanted = to.format;
  if (backend_.same_layout(given, wanted)) return values;
  backend_.to_dense(given, values, floats(dense_));
  backend_.from_dense(wanted, floats(dense_), rearranged_.data());
  return rearranged_.data();
}

void Network::set_before_reads(BeforeReads before) {
  if (chunks_) return chunks_->set_before_reads(before);
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
  if (chunks_) return chunks_->reads(backward);
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

const void* Network::input_of(const Stage& stage) {
  if (stage.from == Wiring::kSample) return batch_.data();
  const Stage& before = stages_[stage.from];
  return stage.is_by_rows ? own_rows(before, before.data) : whole_output(before);
}

/// Adds, unless this rank has no rows.
void Network::add(const kernels::ActivationFormat& format, void* to, const void* addend) const {
  if (format.bytes > 0) backend_.add(format, to, addend);
}

void Network::gather_rows(const Stage& stage, const void* rows, void* all) const {
  exchange_.gather_rows(stage.format.type, rows, all, row_counts(stage.format.shape, row_part_.slices));
}

/// The result is kept for all shards that read it, and for their backward pass, unless another output is gathered
/// before.
const void* Network::whole_output(const Stage& stage) {
  if (!stage.is_sliced) return stage.data;
  if (std::exchange(output_here_, &stage) != &stage) gather_rows(stage, stage.data, gathered_.data());
  return gathered_.data();
}

const void* Network::whole_gradient(const Stage& stage) {
  if (!stage.is_sliced) return stage.gradient;
  if (std::exchange(gradient_here_, &stage) != &stage) gather_rows(stage, stage.gradient, whole_.data());
  return whole_.data();
}

const void* Network::output_gradient_of(const Stage& stage) {
  if (stage.is_by_rows) return stage.gradient;
  const Stage* sum = &stage;
  while (sum->is_summed_later) ++sum;
  return whole_gradient(*sum);
}

void Network::forward(kernels::Phase phase) {
  if (chunks_) return chunks_->forward(phase);
  output_here_ = nullptr;
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

std::uint32_t Network::layer_of(const Stage& stage) const {
  const auto place = static_cast<std::size_t>(&stage - stages_.data());
  return static_cast<std::uint32_t>(first_ + place - (reads_samples() ? 0 : 1));
}

void Network::forward(const Stage& stage, kernels::Phase phase) {
  const TimedSpan span(SpanKind::forward, "forward", layer_of(stage));
  if (stage.fused != nullptr) return stage.layer->forward_fused(input_of(stage), stage.data, stage.fused->data, phase);
  stage.layer->forward(input_of(stage), stage.product, phase);
  if (output_here_ == &stage) output_here_ = nullptr;
  if (stage.outputs_summed > 0) add_shards_of(stage, stage.data, stage.outputs_summed);
  if (stage.plus == Wiring::kNothing) return;
  const Stage& other = stages_[stage.plus];
  if (stage.is_sliced) return add(stage.rows, stage.data, own_rows(other, other.data));
  backend_.add(stage.format, stage.data, rearranged(other, whole_output(other), stage));
}

void Network::forward_backward(float* gradients, float scale, const Finished& finished) {
  if (chunks_) return pass(gradients, scale, finished);
  if (gradients_.empty()) prepare_backward(false);
  // Passes that wait for other ranks are not recorded either.
  if ((finished && backend_.memory_is_host()) || exchange_.sum || before_reads_)
    return pass(gradients, scale, finished);
  const std::pair to(gradients, scale);
  replays_.run(gradients, scale,
               [this, &to] { pass(to.first, to.second, {}); });  // std::function has room for just that
}

void Network::pass(float* gradients, float scale, const Finished& finished) {
  forward(kernels::Phase::training);
  backward(gradients, scale, finished);
}

void Network::compute_loss(float scale, float* totals, bool with_gradients) {
  const TimedSpan span(SpanKind::forward, "loss", layer_of(stages_.back()) + 1);
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
  if (gradient_here_ == &stage) gradient_here_ = nullptr;
  if (!stage.is_used) backend_.clear(stage.gradient, held_bytes(stage));
  if (stage.gradient_is_gathered) gather_rows(stage, own_rows(stage, stage.gradient), stage.gradient);
  if (stage.plus != Wiring::kNothing) backward_plus(stage);
}

/// True if the gradient of the input takes the place of the gradient of the output: the weights of such a layer come
/// first. For other layers compute_input_gradient() comes first, since some compute
/// the gradients of their weights with it.
bool Network::overwrites_gradient(const Stage& stage) const {
  return stage.from != Wiring::kSample && stages_[stage.from].gradient == stage.gradient;
}

void Network::begin_backward(Stage& stage, const std::function<void()>& weights) {
  const TimedSpan span(SpanKind::backward, "backward", layer_of(stage));
  prepare_gradients(stage);
  if (overwrites_gradient(stage)) weights();
  compute_input_gradient(stage);
}

void Network::end_backward(Stage& stage, const std::function<void()>& weights) {
  const TimedSpan span(SpanKind::backward, "backward", layer_of(stage));
  sum_input_gradient(stage);
  if (!overwrites_gradient(stage)) weights();
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
    begin_backward(*stage, std::cref(weights));  // a std::function has room for that
    end_backward(*stage, std::cref(weights));
    if (finished && stage->final_from < final_from) finished(final_from = stage->final_from);
  }
}

void Network::backward_input(float scale) {
  if (chunks_) return chunks_->backward_input(scale);
  compute_loss(scale, floats(totals_) + kLossAt);
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (before_reads_) before_reads_(true, static_cast<std::size_t>(&*stage - stages_.data()));
    begin_backward(*stage, [] {});
    end_backward(*stage, [] {});
  }
}

void Network::backward_weights(float* gradients) {
  if (chunks_) return chunks_->backward_weights(gradients);
  float* tail = gradients + layout_size_;
  if (has_totals_) backend_.fill(tail, kTail, 0.0f);
  if (has_loss()) backend_.copy(tail, totals_.data(), totals_.bytes());
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (before_reads_) before_reads_(true, static_cast<std::size_t>(&*stage - stages_.data()));
    const TimedSpan span(SpanKind::backward, "backward", layer_of(*stage));
    backward_weights(*stage, gradients);
  }
}

void Network::backward_plus(Stage& stage) {
  Stage& other = stages_[stage.plus];
  const bool in_rows = stage.is_sliced || other.is_sliced;
  const void* const gradient = in_rows ? own_rows(stage, stage.gradient) : rearranged(stage, stage.gradient, other);
  const auto& format = in_rows ? other.rows : other.format;
  void* const to = in_rows ? own_rows(other, other.gradient) : other.gradient;
  if (stage.plus_adds)
    add(format, to, gradient);
  else if (gradient != to)
    backend_.copy(to, gradient, format.bytes);
}

void Network::compute_weights(const Stage& stage, kernels::Pointers gradients) {
  const void* const gradient = stage.weights_read_all_rows ? whole_gradient(stage) : output_gradient_of(stage);
  stage.layer->backward_weights(input_of(stage), gradient, gradients);
}

void Network::backward_weights(Stage& stage, float* gradients) {
  if (stage.tensors.empty()) return;
  std::array<float*, kMostTensors> pointers{};
  std::transform(stage.tensors.begin(), stage.tensors.end(), pointers.begin(),
                 [&](const Place& place) { return place.adds ? floats(spare_) : gradients + place.offset; });
  compute_weights(stage, {pointers.data(), stage.tensors.size()});
  for (const Place& place : stage.tensors)
    if (place.adds) backend_.add(gradients + place.offset, floats(spare_), place.count);
}

bool Network::has_input_gradient(const Stage& stage) {
  return stage.layer && stage.from != Wiring::kSample && stage.done_before != kernels::Fusion::whole;
}

/// Returns the memory for the gradient of the layer's input: that of the stage before, or memory whose values are then
/// added to it.
void* Network::input_gradient_of(const Stage& stage) {
  return stage.from_adds ? spare_.data() : input_gradient_sum_of(stage);
}

/// Returns the memory in which the gradients of all layers that read the same input are added.
void* Network::input_gradient_sum_of(const Stage& stage) {
  const Stage& before = stages_[stage.from];
  return stage.is_by_rows ? own_rows(before, before.gradient) : before.gradient;
}

void Network::compute_input_gradient(Stage& stage) {
  if (!has_input_gradient(stage)) return;
  const Stage& before = stages_[stage.from];
  void* const gradient = input_gradient_of(stage);
  void* const computed = stage.is_by_rows ? gradient : whole_of(before, gradient);
  const bool is_shard = stage.is_summed_before || stage.gradients_summed > 0;
  const void* const given = output_gradient_of(stage);
  if (computed == whole_.data()) gradient_here_ = nullptr;
  stage.layer->backward_input(input_of(stage), stage.data, given, is_shard ? addend_of(stage, computed) : computed);
  if (computed != gradient && !is_shard)
    backend_.copy(gradient, static_cast<const std::byte*>(computed) + before.rows_at, before.rows.bytes);
}

void Network::sum_input_gradient(Stage& stage) {
  if (!has_input_gradient(stage)) return;
  const Stage& before = stages_[stage.from];
  if (stage.gradients_summed > 0) add_shards_of(before, input_gradient_of(stage), stage.gradients_summed);
  if (!stage.from_adds) return;
  const bool in_rows = stage.is_by_rows || before.is_sliced;
  add(in_rows ? before.rows : before.format, input_gradient_sum_of(stage), spare_.data());
}

void Network::sum_addends(const kernels::ActivationFormat& format, std::span<void* const> addends) const {
  if (exchange_.sum) return exchange_.sum(format, addends);
  backend_.sum(format, addends);
}

void Network::add_shards(const kernels::ActivationFormat& format, void* sum, std::size_t shards) {
  addends_[0] = sum;
  sum_addends(format, std::span(addends_).first(shards));
}

void Network::add_shards_of(const Stage& output, void* sum, std::size_t shards) {
  if (!output.is_sliced) return add_shards(output.format, sum, shards);
  gradient_here_ = nullptr;
  addends_[0] = whole_.data();
  exchange_.sum_to_rows(output.format, std::span(addends_).first(shards), sum,
                        row_counts(output.format.shape, row_part_.slices));
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
