// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/model/context_chunks.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/stage_execution.hpp>

namespace distdl::model {
namespace {
float* floats_of(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

Network::Activation activation(void* values, std::size_t bytes) {
  return {static_cast<std::byte*>(values), bytes};
}
}  // namespace

Network::Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
                 Activations activations, std::span<const LayerMemory> sizes)
    : backend_(backend),
      samples_(samples),
      layout_size_(tensors.layout.size()),
      reads_samples_(tensors.layers.first == 0),
      has_loss_(tensors.layers.end == model.layers.size()),
      has_totals_(tensors.has_totals),
      replays_([&backend] { return backend.make_replay(); }),
      changes_([&backend] { return backend.make_replay(); }) {
  terms_ = kernels::loss_terms(model.loss, wire(model, samples).layers.back().output) / samples;
  const bool recomputes = activations == Activations::recomputed;
  if (model.context.chunks > 1) {
    chunks_ = std::make_unique<ContextChunks>(backend, model, tensors, samples, recomputes);
    return;
  }
  stages_ = std::make_unique<StageExecution>(backend, model, tensors, samples, recomputes, sizes);
  totals_ = backend.allocate(kTotals * sizeof(float));
}

Network::~Network() = default;

void Network::set_exchange_of_shards(const Exchange& exchange) {
  chunks_ ? chunks_->set_exchange_of_shards(exchange) : stages_->set_exchange(exchange);
}

void Network::set_exchange_of_chunks(SumShards sum, Gather gather) {
  if (chunks_) chunks_->set_exchange(std::move(sum), std::move(gather));
}

Network::Activation Network::input() const {
  return chunks_ ? chunks_->input() : activation(stages_->output(0), stages_->plan().stages.front().held_bytes());
}
Network::Activation Network::input_gradient() const {
  return chunks_ ? chunks_->input_gradient()
                 : activation(stages_->gradient(0), stages_->plan().stages.front().held_bytes());
}
Network::Activation Network::output() const {
  return chunks_ ? chunks_->output()
                 : activation(stages_->output(stages_->size() - 1), stages_->plan().stages.back().held_bytes());
}
Network::Activation Network::output_gradient() const {
  return chunks_ ? chunks_->output_gradient()
                 : activation(stages_->gradient(stages_->size() - 1), stages_->plan().stages.back().held_bytes());
}

const StagePlan& Network::plan() const {
  return chunks_ ? chunks_->plan() : stages_->plan();
}

std::size_t Network::activation_bytes() const {
  return chunks_ ? chunks_->activation_bytes() : plan().activation_bytes;
}

bool Network::recomputes() const {
  return !chunks_ && !plan().recomputation.ends.empty();
}

double Network::repeated_flops() const {
  return chunks_ ? chunks_->repeated_flops() : plan().repeated_flops();
}

std::size_t Network::workspace_bytes() const {
  const std::size_t bytes = chunks_ ? chunks_->workspace_bytes() : stages_->workspace_bytes();
  return bytes + totals_.bytes() + dense_logits_.bytes();
}

std::vector<std::vector<Elements>> Network::reads(bool backward) const {
  return plan().reads(backward);
}

std::vector<std::size_t> Network::places() const {
  return plan().places();
}

void Network::set_before_reads(BeforeReads before) {
  if (chunks_) return chunks_->set_before_reads(std::move(before));
  before_reads_ = std::move(before);
}

void Network::announce(bool backward, std::size_t stage) const {
  if (before_reads_) before_reads_(backward, stage);
}

void Network::load_parameters(const float* arena) {
  if (std::exchange(parameters_, arena) != arena) replays_.forget();
  if (chunks_) return chunks_->load_parameters(arena);
  stages_->set_parameters(arena);
  if (!before_reads_) stages_->load_parameters();
}

void Network::change_parameters(const std::function<void()>& change) {
  changes_.run(parameters_, 1, [this, &change] {
    change();
    load_parameters(parameters_);
  });
}

void Network::set_batch(const void* samples, const void* targets) {
  chunks_ ? chunks_->set_batch(samples, targets) : stages_->set_batch(samples, targets);
}

void Network::forward(kernels::Phase phase) {
  if (chunks_) return chunks_->forward(phase);
  stages_->begin_forward();
  for (std::size_t at = reads_samples() ? 0 : 1; at < stages_->size(); ++at) {
    if (plan().stages[at].done_before != kernels::Fusion::none) continue;
    if (before_reads_) {
      announce(false, at);
      stages_->load_parameters(at);
    }
    stages_->forward(at, phase);
  }
}

void Network::forward_backward(float* gradients, float scale, const Finished& finished) {
  if (chunks_) return pass(gradients, scale, finished);
  if (!stages_->is_prepared()) prepare_backward(false);
  // Nor is recorded what waits for other ranks.
  if ((finished && backend_.memory_is_host()) || stages_->has_exchange() || before_reads_)
    return pass(gradients, scale, finished);
  const std::pair to(gradients, scale);
  replays_.run(gradients, scale,
               [this, &to] { pass(to.first, to.second, {}); });  // std::function has room for just that
}

void Network::pass(float* gradients, float scale, const Finished& finished) {
  forward(kernels::Phase::training);
  backward(gradients, scale, finished);
}

void Network::prepare_backward(bool in_pieces) {
  chunks_ ? chunks_->prepare_backward(in_pieces) : stages_->prepare_backward(in_pieces);
}

void Network::backward(float* gradients, float scale, const Finished& finished) {
  if (chunks_) return chunks_->backward(gradients, scale, finished);
  float* tail = gradients + layout_size_;
  if (has_totals_) backend_.fill(tail, kTail, 0.0f);
  stages_->compute_loss(scale, tail + kLossAt);
  std::size_t final_from = layout_size_;
  if (finished) finished(final_from);
  for (std::size_t at = stages_->size(); at-- > 0;) {
    const auto weights = [this, at, gradients] { stages_->backward_weights(at, gradients); };
    announce(true, at);
    stages_->recompute_before(at);
    stages_->begin_backward(at, std::cref(weights));  // for which a std::function has room
    stages_->end_backward(at, std::cref(weights));
    const std::size_t place = plan().stages[at].final_from;
    if (finished && place < final_from) finished(final_from = place);
  }
}

void Network::backward_input(float scale) {
  if (chunks_) return chunks_->backward_input(scale);
  stages_->compute_loss(scale, floats_of(totals_) + kLossAt);
  for (std::size_t at = stages_->size(); at-- > 0;) {
    announce(true, at);
    stages_->begin_backward(at, [] {});
    stages_->end_backward(at, [] {});
  }
}

void Network::backward_weights(float* gradients) {
  if (chunks_) return chunks_->backward_weights(gradients);
  float* tail = gradients + layout_size_;
  if (has_totals_) backend_.fill(tail, kTail, 0.0f);
  if (has_loss()) backend_.copy(tail, totals_.data(), totals_.bytes());
  for (std::size_t at = stages_->size(); at-- > 0;) {
    announce(true, at);
    const TimedSpan span(SpanKind::backward, "backward", plan().layer_of(at));
    stages_->backward_weights(at, gradients);
  }
}

std::vector<float> Network::logits() {
  require<InternalError>(!chunks_ && plan().head_slices == 0, "{}",
                         "the logits of chunks of sequences or slices of classes lie apart");
  forward(kernels::Phase::evaluation);
  const auto& format = plan().stages.back().format;
  const auto count = static_cast<std::size_t>(tensor::element_count(format.shape));
  if (dense_logits_.bytes() == 0) dense_logits_ = backend_.allocate(count * sizeof(float));
  backend_.to_dense(format, stages_->output(stages_->size() - 1), floats_of(dense_logits_));
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
  stages_->compute_loss(1.0f, floats_of(totals_), false);
  float host[kTotals];
  backend_.copy_to_host(host, totals_.data(), sizeof host);
  return {host[kLossAt], host[kCorrectAt], host[kCountAt]};
}

}  // namespace distdl::model
