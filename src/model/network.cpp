// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include <distdl/base/errors.hpp>
#include <distdl/model/network.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kMostTensors = 4;  // of a layer

float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}
}  // namespace

Network::Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples)
    : backend_(backend), samples_(samples), layout_size_(tensors.layout.size()) {
  bind(model, tensors);
  plan_gradients();
  totals_ = backend.allocate(3 * sizeof(float));
  const auto& predictions = stages_.back().layer->output();
  loss_ = backend.loss(model.loss, predictions);
  terms_ = kernels::loss_terms(model.loss, predictions.shape) / samples;
  targets_ = backend.allocate(static_cast<std::size_t>(kernels::target_count(model.loss, predictions.shape)) *
                              sizeof(std::int32_t));
}

void Network::bind(const Description& model, const ModelTensors& tensors) {
  const Wiring wiring = wire(model, samples_);
  tensor::Shape shape = model.sample;
  shape.insert(shape.begin(), samples_);
  const auto sample = kernels::dense(shape);
  batch_ = backend_.allocate(sample.bytes);
  stages_.resize(model.layers.size());
  for (const auto& [view, spec, layer, shared] : tensors.tensors)
    stages_[layer].tensors.push_back({view.offset, view.count, false});
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    auto& stage = stages_[i];
    stage.from = wiring.layers[i].from;
    stage.plus = wiring.layers[i].plus;
    const auto& input = stage.from == Wiring::kSample ? sample : stages_[stage.from].layer->output();
    stage.layer = backend_.layer(model.layers[i].spec, input);
    const auto& format = stage.layer->output();
    stage.output = backend_.allocate(format.bytes);
    stage.gradient = backend_.allocate(format.bytes);
    stage.count = format.bytes / sizeof(float);
    if (stage.plus == Wiring::kNothing) continue;
    const auto& other = stages_[stage.plus].layer->output();
    if (backend_.same_layout(format, other)) continue;
    const std::size_t bytes = std::max({format.bytes, other.bytes, rearranged_.bytes()});
    dense_ = backend_.allocate(bytes);
    rearranged_ = backend_.allocate(bytes);
  }
}

const float* Network::rearranged(const Stage& from, const tensor::Buffer& values, const Stage& to) {
  const auto &given = from.layer->output(), &wanted = to.layer->output();
  if (backend_.same_layout(given, wanted)) return floats(values);
  backend_.to_dense(given, floats(values), floats(dense_));
  backend_.from_dense(wanted, floats(dense_), floats(rearranged_));
  return floats(rearranged_);
}

/// Who comes first in the backward pass writes, the others add.
void Network::plan_gradients() {
  std::set<int> written;
  std::set<std::size_t> offsets;
  std::size_t most = 0;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (stage->plus != Wiring::kNothing) stage->plus_adds = !written.insert(stage->plus).second;
    if (stage->from != Wiring::kSample) stage->from_adds = !written.insert(stage->from).second;
    if (stage->from_adds) most = std::max(most, stages_[stage->from].count);
    for (Place& place : stage->tensors) {
      place.adds = !offsets.insert(place.offset).second;
      if (place.adds) most = std::max(most, place.count);
    }
  }
  if (most > 0) spare_ = backend_.allocate(most * sizeof(float));
}

void Network::load_parameters(const float* arena) {
  for (auto& stage : stages_) {
    if (stage.tensors.empty()) continue;
    std::array<const float*, kMostTensors> pointers{};
    std::transform(stage.tensors.begin(), stage.tensors.end(), pointers.begin(),
                   [&](const Place& place) { return arena + place.offset; });
    stage.layer->load_parameters({pointers.data(), stage.tensors.size()});
  }
}

void Network::set_batch(const void* samples, const void* targets) {
  backend_.copy_from_host(batch_.data(), samples, batch_.bytes());
  backend_.copy_from_host(targets_.data(), targets, targets_.bytes());
}

const float* Network::input_of(const Stage& stage) const {
  return floats(stage.from == Wiring::kSample ? batch_ : stages_[stage.from].output);
}

void Network::forward(kernels::Phase phase) {
  for (auto& stage : stages_) {
    stage.layer->forward(input_of(stage), floats(stage.output), phase);
    if (stage.plus == Wiring::kNothing) continue;
    const Stage& other = stages_[stage.plus];
    backend_.add(floats(stage.output), rearranged(other, other.output, stage), stage.count);
  }
}

void Network::forward_backward(float* gradients, float scale) {
  forward(kernels::Phase::training);
  float* tail = gradients + layout_size_;
  backend_.fill(tail, kTail, 0.0f);
  loss_->forward_backward(floats(stages_.back().output), targets_.data(), scale, floats(stages_.back().gradient),
                          tail + kLossAt);
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    if (stage->plus != Wiring::kNothing) {
      const Stage& other = stages_[stage->plus];
      const float* const gradient = rearranged(*stage, stage->gradient, other);
      if (stage->plus_adds)
        backend_.add(floats(other.gradient), gradient, other.count);
      else
        backend_.copy(floats(other.gradient), gradient, other.count);
    }
    backward_weights(*stage, gradients);
    backward_input(*stage);
  }
}

void Network::backward_weights(Stage& stage, float* gradients) {
  if (stage.tensors.empty()) return;
  std::array<float*, kMostTensors> pointers{};
  std::transform(stage.tensors.begin(), stage.tensors.end(), pointers.begin(),
                 [&](const Place& place) { return place.adds ? floats(spare_) : gradients + place.offset; });
  stage.layer->backward_weights(input_of(stage), floats(stage.gradient), {pointers.data(), stage.tensors.size()});
  for (const Place& place : stage.tensors)
    if (place.adds) backend_.add(gradients + place.offset, floats(spare_), place.count);
}

void Network::backward_input(Stage& stage) {
  if (stage.from == Wiring::kSample) return;
  float* const target = floats(stages_[stage.from].gradient);
  stage.layer->backward_input(input_of(stage), floats(stage.output), floats(stage.gradient),
                              stage.from_adds ? floats(spare_) : target);
  if (stage.from_adds) backend_.add(target, floats(spare_), stages_[stage.from].count);
}

std::vector<float> Network::logits() {
  forward(kernels::Phase::evaluation);
  const auto& last = stages_.back();
  const auto& format = last.layer->output();
  const auto count = static_cast<std::size_t>(tensor::element_count(format.shape));
  if (dense_logits_.bytes() == 0) dense_logits_ = backend_.allocate(count * sizeof(float));
  backend_.to_dense(format, floats(last.output), floats(dense_logits_));
  std::vector<float> result(count);
  backend_.copy_to_host(result.data(), dense_logits_.data(), count * sizeof(float));
  return result;
}

Totals Network::evaluate() {
  forward(kernels::Phase::evaluation);
  loss_->forward_backward(floats(stages_.back().output), targets_.data(), 1.0f, nullptr, floats(totals_));
  float host[3];
  backend_.copy_to_host(host, totals_.data(), sizeof host);
  return {host[0], host[1], host[2]};
}

}  // namespace distdl::model
