// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/model/network.hpp>

namespace distdl::model {
namespace {
float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

/// A layer has at most four tensors.
template <class T>
std::array<T*, 4> pointers_into(T* arena, const std::vector<std::size_t>& offsets) {
  std::array<T*, 4> pointers{};
  for (std::size_t i = 0; i < offsets.size(); ++i) pointers[i] = arena + offsets[i];
  return pointers;
}
}  // namespace

Network::Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples)
    : backend_(backend), samples_(samples), layout_size_(tensors.layout.size()) {
  tensor::Shape shape = model.sample;
  shape.insert(shape.begin(), samples);
  kernels::ActivationFormat format = kernels::dense(shape);
  images_ = backend.allocate(format.bytes);
  labels_ = backend.allocate(static_cast<std::size_t>(samples) * sizeof(std::int32_t));
  totals_ = backend.allocate(2 * sizeof(float));
  stages_.resize(model.layers.size());
  for (const auto& tensor : tensors.tensors) stages_[tensor.layer].offsets.push_back(tensor.view.offset);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    auto& stage = stages_[i];
    stage.layer = backend.layer(model.layers[i].spec, format);
    format = stage.layer->output();
    stage.output = backend.allocate(format.bytes);
    stage.gradient = backend.allocate(format.bytes);
  }
  loss_ = backend.softmax_cross_entropy(format);
}

void Network::load_parameters(const float* arena) {
  for (auto& stage : stages_) {
    if (stage.offsets.empty()) continue;
    auto pointers = pointers_into(arena, stage.offsets);
    stage.layer->load_parameters({pointers.data(), stage.offsets.size()});
  }
}

void Network::set_batch(const float* images, const std::int32_t* labels) {
  backend_.copy_from_host(images_.data(), images, images_.bytes());
  backend_.copy_from_host(labels_.data(), labels, labels_.bytes());
}

void Network::forward(kernels::Phase phase) {
  const float* x = floats(images_);
  for (auto& stage : stages_) {
    stage.layer->forward(x, floats(stage.output), phase);
    x = floats(stage.output);
  }
}

void Network::forward_backward(float* gradients, float scale) {
  forward(kernels::Phase::training);
  float* tail = gradients + layout_size_;
  backend_.fill(tail, kTail, 0.0f);
  loss_->forward_backward(floats(stages_.back().output), static_cast<const std::int32_t*>(labels_.data()), scale,
                          floats(stages_.back().gradient), tail + kLossAt);
  for (std::size_t i = stages_.size(); i-- > 0;) {
    auto& stage = stages_[i];
    const float* x = i == 0 ? floats(images_) : floats(stages_[i - 1].output);
    const float* dy = floats(stage.gradient);
    if (!stage.offsets.empty()) {
      auto pointers = pointers_into(gradients, stage.offsets);
      stage.layer->backward_weights(x, dy, {pointers.data(), stage.offsets.size()});
    }
    if (i > 0) stage.layer->backward_input(x, floats(stage.output), dy, floats(stages_[i - 1].gradient));
  }
}

Totals Network::evaluate() {
  forward(kernels::Phase::evaluation);
  loss_->forward_backward(floats(stages_.back().output), static_cast<const std::int32_t*>(labels_.data()), 1.0f,
                          nullptr, floats(totals_));
  float host[2];
  backend_.copy_to_host(host, totals_.data(), sizeof host);
  return {host[0], host[1]};
}

}  // namespace distdl::model
