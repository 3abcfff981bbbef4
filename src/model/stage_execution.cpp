// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/model/gradient_memory.hpp>
#include <distdl/model/row_slices.hpp>
#include <distdl/model/sliced_head.hpp>
#include <distdl/model/stage_execution.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kMostTensors = 4;  // of a layer

float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

/// Returns null for no bytes.
tensor::Buffer buffer_of(kernels::Backend& backend, std::size_t bytes) {
  return bytes > 0 ? backend.allocate(bytes) : tensor::Buffer();
}

/// The place of this rank's rows in an output or its gradient.
void* own_rows(const Stage& stage, void* values) {
  return stage.is_sliced ? values : static_cast<std::byte*>(values) + stage.rows_at;
}
}  // namespace

class StageExecution::BackendLayers final : public StageLayers {
 public:
  BackendLayers(StageExecution& execution, const RowPart& rows) : execution_(execution), rows_(rows) {}

  tensor::DataType activation_type() const override { return backend().activation_type(); }
  bool same_layout(const kernels::ActivationFormat& one, const kernels::ActivationFormat& other) const override {
    return backend().same_layout(one, other);
  }
  kernels::ActivationFormat output_of(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input) override {
    return backend().layer(spec, input)->output();
  }
  kernels::Layer& add(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input, bool in_slices) override {
    return *execution_.layers_.emplace_back(in_slices ? slices(spec, input) : backend().layer(spec, input));
  }

 private:
  kernels::Backend& backend() const { return execution_.backend_; }

  std::unique_ptr<kernels::Layer> slices(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input) {
    const bool has_some = rows_.count < rows_.slices;
    const RowPart all{rows_.slices, 0, rows_.slices};
    return std::make_unique<RowSlices>(backend(), spec, input, has_some ? rows_ : all,
                                       [has_some, &execution = execution_](const auto& format, auto addends) {
                                         has_some ? execution.sum_addends(format, addends)
                                                  : execution.backend_.sum(format, addends);
                                       });
  }

  StageExecution& execution_;
  const RowPart& rows_;
};

StagePlan StageExecution::make_plan(const Description& model, const ModelTensors& tensors, std::int64_t samples,
                                    bool recomputes, std::span<const LayerMemory> sizes) {
  BackendLayers layers(*this, model.rows);
  StagePlan plan = plan_stages(model, tensors, samples, recomputes, sizes, layers);
  if (!plan.reads_samples()) layers_.insert(layers_.begin(), nullptr);
  return plan;
}

StageExecution::StageExecution(kernels::Backend& backend, const Description& model, const ModelTensors& tensors,
                               std::int64_t samples, bool recomputes, std::span<const LayerMemory> sizes)
    : backend_(backend),
      plan_(make_plan(model, tensors, samples, recomputes, sizes)),
      memory_(plan_.stages.size()),
      batch_(buffer_of(backend, plan_.reads_samples() ? plan_.sample.bytes : 0)),
      given_(buffer_of(backend, plan_.given_bytes)),
      addends_(plan_.addends),
      gathered_(buffer_of(backend, plan_.gathered_bytes)),
      whole_(buffer_of(backend, plan_.gathered_bytes)),
      dense_(buffer_of(backend, plan_.converted_bytes)),
      converted_(buffer_of(backend, plan_.converted_bytes)),
      block_(buffer_of(backend, plan_.recomputation.shared)) {
  for (std::size_t k = 1; k < plan_.addends; ++k)
    addends_[k] = partials_.emplace_back(backend.allocate(plan_.addend_bytes)).data();
  for (std::size_t at = 0; at < size(); ++at) {
    if (const auto place = stage(at).shared_workspace)
      layers_[at]->use_workspace(static_cast<std::byte*>(block_.data()) + *place);
    if (!stage(at).is_summed_later) locate_output(at);
  }
  spare_ = buffer_of(backend, plan_.spare_bytes);
  if (plan_.has_loss) bind_loss(model);
}

StageExecution::~StageExecution() = default;

void StageExecution::locate_output(std::size_t at) {
  const Stage& one = stage(at);
  Memory& memory = memory_[at];
  if (one.in_place)
    memory.data = memory_[one.from].data;
  else if (one.shared_output)
    memory.data = static_cast<std::byte*>(block_.data()) + *one.shared_output;
  else
    memory.data = (memory.output = backend_.allocate(one.memory_bytes())).data();
  memory.product = memory.data;
  for (std::size_t k = 0; k < one.outputs_summed; ++k)
    memory_[at - k].product = addend_of(stage(at - k), whole_of(one, memory.data));
  // Their own outputs do not last until backward, which no linear layer computes from them.
  for (std::size_t k = 1; k < one.outputs_summed; ++k) memory_[at - k].data = memory_[at - k].product;
}

void StageExecution::bind_loss(const Description& model) {
  const auto& predictions = plan_.stages.back().format;
  if (plan_.head_slices > 0)
    head_ = std::make_unique<SlicedHead>(backend_, model, predictions);
  else
    loss_ = backend_.loss(model.loss, predictions);
  targets_ = backend_.allocate(static_cast<std::size_t>(kernels::target_count(model.loss, predictions.shape)) *
                               sizeof(std::int32_t));
}

std::size_t StageExecution::workspace_bytes() const {
  std::size_t bytes = 0;
  for (const auto* buffers : {&gradients_, &partials_})
    for (const auto& buffer : *buffers) bytes += buffer.bytes();
  for (const auto* buffer : {&batch_, &given_, &targets_, &spare_, &gathered_, &whole_, &dense_, &converted_})
    bytes += buffer->bytes();
  return bytes;
}

void StageExecution::set_exchange(const Exchange& exchange) {
  exchange_ = exchange;
  if (head_) head_->set_gather(exchange.gather);
}

void StageExecution::share_parameters(const StageExecution& other) {
  for (std::size_t at = 0; at < size(); ++at)
    if (!stage(at).tensors.empty()) layers_[at]->share_parameters(*other.layers_[at]);
}

void StageExecution::load_parameters() {
  for (std::size_t at = 0; at < size(); ++at) load_own_parameters(at);
}

void StageExecution::load_parameters(std::size_t stage) {
  load_own_parameters(stage);
  if (const auto fused = plan_.stages[stage].fused) load_own_parameters(*fused);
}

void StageExecution::load_own_parameters(std::size_t at) {
  const auto& tensors = stage(at).tensors;
  if (tensors.empty()) return;
  std::array<const float*, kMostTensors> pointers{};
  std::transform(tensors.begin(), tensors.end(), pointers.begin(),
                 [&](const TensorPlace& place) { return parameters_ + place.offset; });
  layers_[at]->load_parameters({pointers.data(), tensors.size()});
}

void StageExecution::set_batch(const void* samples, const void* targets) {
  if (plan_.has_loss) backend_.copy_from_host(targets_.data(), targets, targets_.bytes());
  if (!plan_.reads_samples()) return;
  const tensor::Buffer& given = given_.bytes() > 0 ? given_ : batch_;
  backend_.copy_from_host(given.data(), samples, given.bytes());
  if (given_.bytes() > 0) backend_.from_dense(plan_.sample, floats(given_), batch_.data());
}

const void* StageExecution::input_of(const Stage& stage) {
  if (stage.from == Wiring::kSample) return batch_.data();
  const auto from = static_cast<std::size_t>(stage.from);
  return stage.is_by_rows ? own_rows(plan_.stages[from], output(from)) : whole_output(from);
}

void StageExecution::add(const kernels::ActivationFormat& format, void* to, const void* addend) const {
  if (format.bytes > 0) backend_.add(format, to, addend);
}

void StageExecution::gather_rows(const Stage& stage, const void* rows, void* all) const {
  exchange_.gather_rows(stage.format.type, rows, all, row_counts(stage.format.shape, plan_.rows.slices));
}

/// Kept for all shards that read it, and for their backward pass, if no other output is gathered before.
const void* StageExecution::whole_output(std::size_t at) {
  if (!stage(at).is_sliced) return output(at);
  if (std::exchange(output_here_, at) != at) gather_rows(stage(at), output(at), gathered_.data());
  return gathered_.data();
}

const void* StageExecution::whole_gradient(std::size_t at) {
  if (!stage(at).is_sliced) return gradient(at);
  if (std::exchange(gradient_here_, at) != at) gather_rows(stage(at), gradient(at), whole_.data());
  return whole_.data();
}

const void* StageExecution::output_gradient_of(std::size_t at) {
  if (stage(at).is_by_rows) return gradient(at);
  while (stage(at).is_summed_later) ++at;
  return whole_gradient(at);
}

const void* StageExecution::converted(const Stage& from, const void* values, const Stage& to) {
  backend_.to_dense(from.format, values, floats(dense_));
  backend_.from_dense(to.format, floats(dense_), converted_.data());
  return converted_.data();
}

void StageExecution::forward(std::size_t stage, kernels::Phase phase) {
  const Stage& one = plan_.stages[stage];
  kernels::Layer& layer = *layers_[stage];
  const Memory& memory = memory_[stage];
  const TimedSpan span(SpanKind::forward, "forward", plan_.layer_of(stage));
  if (one.fused) return layer.forward_fused(input_of(one), memory.data, output(*one.fused), phase);
  layer.forward(input_of(one), memory.product, phase);
  if (output_here_ == stage) output_here_ = kNone;
  if (one.outputs_summed > 0) add_shards_of(one, memory.data, one.outputs_summed);
  if (one.plus == Wiring::kNothing) return;
  const auto plus = static_cast<std::size_t>(one.plus);
  const Stage& other = plan_.stages[plus];
  if (one.is_sliced) return add(one.rows, memory.data, own_rows(other, output(plus)));
  const void* const addend = whole_output(plus);
  backend_.add(one.format, memory.data, one.plus_has_other_layout ? converted(other, addend, one) : addend);
}

void StageExecution::compute_loss(float scale, float* totals, bool with_gradients) {
  const std::size_t last = size() - 1;
  const TimedSpan span(SpanKind::forward, "loss", plan_.layer_of(last) + 1);
  const auto gradient_of = [&](std::size_t at) { return with_gradients ? gradient(at) : nullptr; };
  if (loss_) loss_->forward_backward(output(last), targets_.data(), scale, gradient_of(last), totals);
  if (!head_) return;
  std::vector<SlicedHead::Slice> slices;
  for (std::size_t at = size() - plan_.head_slices; at < size(); ++at) slices.push_back({output(at), gradient_of(at)});
  head_->forward_backward(slices, targets_.data(), scale, totals);
}

void StageExecution::prepare_backward(bool in_pieces) {
  require<InternalError>(!in_pieces || plan_.recomputation.ends.empty(), "{}",
                         "a backward pass in pieces needs activations");
  const GradientMemory plan = plan_gradient_memory(plan_, in_pieces);
  for (std::size_t bytes : plan.bytes) gradients_.push_back(backend_.allocate(bytes));
  for (std::size_t at = 0; at < size(); ++at) memory_[at].gradient = gradients_[plan.block_of[at]].data();
}

void StageExecution::recompute_before(std::size_t stage) {
  for (auto [one, end] = plan_.block_before(stage); one < end; ++one)
    if (plan_.is_repeated(one, stage)) forward(one, kernels::Phase::training);
}

void StageExecution::prepare_gradients(std::size_t at) {
  const Stage& one = stage(at);
  if (gradient_here_ == at) gradient_here_ = kNone;
  if (!one.is_used) backend_.clear(gradient(at), one.held_bytes());
  if (one.gradient_is_gathered) gather_rows(one, own_rows(one, gradient(at)), gradient(at));
  if (one.plus != Wiring::kNothing) backward_plus(at);
}

bool StageExecution::overwrites_gradient(std::size_t at) const {
  const int from = stage(at).from;
  return from != Wiring::kSample && memory_[from].gradient == memory_[at].gradient;
}

void StageExecution::begin_backward(std::size_t stage, const std::function<void()>& weights) {
  const TimedSpan span(SpanKind::backward, "backward", plan_.layer_of(stage));
  prepare_gradients(stage);
  if (overwrites_gradient(stage)) weights();
  compute_input_gradient(stage);
}

void StageExecution::end_backward(std::size_t stage, const std::function<void()>& weights) {
  const TimedSpan span(SpanKind::backward, "backward", plan_.layer_of(stage));
  sum_input_gradient(stage);
  if (!overwrites_gradient(stage)) weights();
}

void StageExecution::backward_plus(std::size_t at) {
  const Stage& one = stage(at);
  const auto plus = static_cast<std::size_t>(one.plus);
  const Stage& other = stage(plus);
  const bool in_rows = one.is_sliced || other.is_sliced;
  const void* given = in_rows ? own_rows(one, gradient(at)) : gradient(at);
  if (!in_rows && one.plus_has_other_layout) given = converted(one, given, other);
  const auto& format = in_rows ? other.rows : other.format;
  void* const to = in_rows ? own_rows(other, gradient(plus)) : gradient(plus);
  if (one.plus_adds)
    add(format, to, given);
  else if (given != to)
    backend_.copy(to, given, format.bytes);
}

void StageExecution::compute_weights(std::size_t stage, kernels::Pointers gradients) {
  const Stage& one = plan_.stages[stage];
  const void* const given = one.weights_read_all_rows ? whole_gradient(stage) : output_gradient_of(stage);
  layers_[stage]->backward_weights(input_of(one), given, gradients);
}

void StageExecution::backward_weights(std::size_t stage, float* gradients) {
  const auto& tensors = plan_.stages[stage].tensors;
  if (tensors.empty()) return;
  std::array<float*, kMostTensors> pointers{};
  std::transform(tensors.begin(), tensors.end(), pointers.begin(),
                 [&](const TensorPlace& place) { return place.adds ? floats(spare_) : gradients + place.offset; });
  compute_weights(stage, {pointers.data(), tensors.size()});
  for (const TensorPlace& place : tensors)
    if (place.adds) backend_.add(gradients + place.offset, floats(spare_), place.count);
}

void* StageExecution::input_gradient_of(const Stage& stage) {
  return stage.from_adds ? spare_.data() : input_gradient_sum_of(stage);
}

void* StageExecution::input_gradient_sum_of(const Stage& stage) {
  const auto from = static_cast<std::size_t>(stage.from);
  return stage.is_by_rows ? own_rows(plan_.stages[from], gradient(from)) : gradient(from);
}

void StageExecution::compute_input_gradient(std::size_t at) {
  const Stage& one = stage(at);
  if (!one.has_input_gradient()) return;
  const Stage& before = plan_.stages[one.from];
  void* const to = input_gradient_of(one);
  void* const computed = one.is_by_rows ? to : whole_of(before, to);
  const bool is_shard = one.is_summed_before || one.gradients_summed > 0;
  const void* const given = output_gradient_of(at);
  if (computed == whole_.data()) gradient_here_ = kNone;
  layers_[at]->backward_input(input_of(one), output(at), given, is_shard ? addend_of(one, computed) : computed);
  if (computed != to && !is_shard)
    backend_.copy(to, static_cast<const std::byte*>(computed) + before.rows_at, before.rows.bytes);
}

void StageExecution::sum_input_gradient(std::size_t at) {
  const Stage& one = stage(at);
  if (!one.has_input_gradient()) return;
  const Stage& before = plan_.stages[one.from];
  if (one.gradients_summed > 0) add_shards_of(before, input_gradient_of(one), one.gradients_summed);
  if (!one.from_adds) return;
  const bool in_rows = one.is_by_rows || before.is_sliced;
  add(in_rows ? before.rows : before.format, input_gradient_sum_of(one), spare_.data());
}

void StageExecution::sum_addends(const kernels::ActivationFormat& format, std::span<void* const> addends) const {
  if (exchange_.sum) return exchange_.sum(format, addends);
  backend_.sum(format, addends);
}

void StageExecution::add_shards_of(const Stage& output, void* sum, std::size_t shards) {
  const auto addends = std::span(addends_).first(shards);
  if (!output.is_sliced) {
    addends_[0] = sum;
    return sum_addends(output.format, addends);
  }
  gradient_here_ = kNone;
  addends_[0] = whole_.data();
  exchange_.sum_to_rows(output.format, addends, sum, row_counts(output.format.shape, plan_.rows.slices));
}

}  // namespace distdl::model
