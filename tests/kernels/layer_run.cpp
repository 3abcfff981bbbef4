// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/layer_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <distdl/base/philox.hpp>

namespace distdl::kernels::test {
Values random_values(std::int64_t count, std::uint64_t seed) {
  Values values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * Philox::uniform(Philox::block(seed, 0, i)[0]) - 1;
  return values;
}

Values spaced_values(std::int64_t count, std::uint64_t seed) {
  Values values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = (static_cast<float>(i - count / 2) + 0.5f) * 0.05f;
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Philox::block(seed, 1, i)[0] % i]);
  return values;
}

std::vector<Values> random_parameters(const LayerSpec& spec, const tensor::Shape& input, std::uint64_t seed) {
  std::vector<Values> all;
  for (const auto& parameter : parameters_of(spec, input)) {
    all.push_back(random_values(tensor::element_count(parameter.shape), seed + 100 * all.size()));
    if (parameter.init == Init::ones)
      for (float& value : all.back()) value = 1.5f + value;
  }
  return all;
}

double dot(const Values& a, const Values& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float x, float y) { return double{x} * y; });
}

LayerRun::LayerRun(Backend& backend, const std::vector<LayerSpec>& specs, const tensor::Shape& input)
    : backend_(backend) {
  if (const auto* embedding = std::get_if<Embedding>(&specs.front())) entries_ = embedding->entries;
  activations_.push_back(activation(dense(input, entries_ > 0 ? tensor::DataType::int32 : backend.activation_type())));
  for (const auto& spec : specs) {
    const ActivationFormat& format = activations_.back().format;
    Step step;
    step.layer = backend.layer(spec, format);
    for (const auto& parameter : parameters_of(spec, format.shape)) {
      auto count = static_cast<std::size_t>(tensor::element_count(parameter.shape));
      step.parameters.push_back(allocate(count));
      step.gradients.push_back(allocate(count));
    }
    activations_.push_back(activation(step.layer->output()));
    steps_.push_back(std::move(step));
  }
  fuse(specs);
}

void LayerRun::fuse(const std::vector<LayerSpec>& specs) {
  for (std::size_t i = 1; i < steps_.size(); ++i) {
    if (steps_[i - 1].done_before != Fusion::none) continue;
    const bool in_place = steps_[i].layer->works_in_place() && !steps_[i - 1].layer->backward_reads_output();
    steps_[i].done_before = steps_[i - 1].layer->fuse(specs[i], in_place);
    if (steps_[i].done_before == Fusion::none || !in_place) continue;
    activations_[i + 1].value = activations_[i].value;
    activations_[i + 1].gradient = activations_[i].gradient;
  }
}

LayerRun::Tensor LayerRun::allocate(std::size_t count) {
  return {backend_.allocate(count * sizeof(float)), count};
}

/// In a network the memory has been another layer's: what fills up the blocks of a format is not zero there.
LayerRun::Activation LayerRun::activation(const ActivationFormat& format) {
  const auto used = [&] {
    auto memory = std::make_shared<tensor::Buffer>(backend_.allocate(format.bytes));
    if (backend_.memory_is_host()) std::memset(memory->data(), 0x7f, format.bytes);
    return memory;
  };
  return {format, used(), used()};
}

void LayerRun::upload(const ActivationFormat& format, const Values& values, const tensor::Buffer& to) {
  Tensor dense_values = allocate(values.size());
  backend_.copy_from_host(dense_values.data(), values.data(), values.size() * sizeof(float));
  backend_.from_dense(format, dense_values.data(), to.data());
}

Values LayerRun::download(const ActivationFormat& format, const tensor::Buffer& from) {
  Values values(static_cast<std::size_t>(tensor::element_count(format.shape)));
  Tensor dense_values = allocate(values.size());
  backend_.to_dense(format, from.data(), dense_values.data());
  backend_.copy_to_host(values.data(), dense_values.data(), values.size() * sizeof(float));
  return values;
}

void LayerRun::set_parameters(std::size_t layer, const std::vector<Values>& values) {
  Step& step = steps_.at(layer);
  std::vector<const float*> pointers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Tensor& tensor = step.parameters.at(i);
    backend_.copy_from_host(tensor.data(), values[i].data(), tensor.count * sizeof(float));
    pointers.push_back(tensor.data());
  }
  step.layer->load_parameters(pointers);
}

Values LayerRun::forward(const Values& x, Phase phase) {
  if (entries_ > 0)
    upload_numbers(x);
  else
    upload(activations_[0].format, x, *activations_[0].value);
  for (std::size_t i = 0; i < steps_.size(); ++i) run_step(i, phase);
  return download(activations_.back().format, *activations_.back().value);
}

void LayerRun::run_step(std::size_t i, Phase phase) {
  const void* const x = activations_[i].value->data();
  void* const y = activations_[i + 1].value->data();
  if (steps_[i].done_before != Fusion::none) return;
  if (i + 1 < steps_.size() && steps_[i + 1].done_before != Fusion::none)
    steps_[i].layer->forward_fused(x, y, activations_[i + 2].value->data(), phase);
  else
    steps_[i].layer->forward(x, y, phase);
}

void LayerRun::upload_numbers(const Values& x) {
  std::vector<std::int32_t> all;
  for (float value : x)
    all.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(std::abs(value) * 1000) % entries_));
  backend_.copy_from_host(activations_[0].value->data(), all.data(), all.size() * sizeof(std::int32_t));
}

Values LayerRun::backward(const Values& dy) {
  upload(activations_.back().format, dy, *activations_.back().gradient);
  for (std::size_t i = steps_.size(); i-- > 0;) {
    std::vector<float*> gradients;
    for (const auto& gradient : steps_[i].gradients) gradients.push_back(gradient.data());
    const Activation &in = activations_[i], &out = activations_[i + 1];
    steps_[i].layer->backward_weights(in.value->data(), out.gradient->data(), gradients);
    if (steps_[i].done_before == Fusion::whole) continue;
    steps_[i].layer->backward_input(in.value->data(), out.value->data(), out.gradient->data(), in.gradient->data());
  }
  if (entries_ > 0) return Values(static_cast<std::size_t>(tensor::element_count(activations_[0].format.shape)));
  return download(activations_[0].format, *activations_[0].gradient);
}

std::vector<Values> LayerRun::parameter_gradients(std::size_t layer) {
  std::vector<Values> all;
  for (const auto& gradient : steps_.at(layer).gradients) {
    all.emplace_back(gradient.count);
    backend_.copy_to_host(all.back().data(), gradient.data(), gradient.count * sizeof(float));
  }
  return all;
}

}  // namespace distdl::kernels::test
