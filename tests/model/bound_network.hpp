// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <distdl/base/philox.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>

namespace distdl::model {

/// A network with everything it needs, at its start values, on random input.
struct BoundNetwork {
  std::unique_ptr<kernels::Backend> backend;
  Description model;
  ModelTensors tensors;
  Network network;
  std::vector<float> parameters;
  tensor::Buffer device_parameters, gradients;

  BoundNetwork(const std::string& backend_name, Description described, std::int64_t samples,
               const std::string& precision = "fp32", Network::Activations activations = Network::Activations::kept)
      : backend(kernels::make_backend({.backend = backend_name, .precision = precision})),
        model(std::move(described)),
        tensors(tensors_of(model)),
        network(*backend, model, tensors, samples, activations),
        parameters(tensors.layout.size()),
        device_parameters(backend->allocate(parameters.size() * sizeof(float))),
        gradients(backend->allocate(network.gradient_count() * sizeof(float))) {
    initialize(tensors, 3, parameters);
    give_batch([this](const void* x, const void* y) { network.set_batch(x, y); });
    load();
  }

  void load() {
    backend->copy_from_host(device_parameters.data(), parameters.data(), parameters.size() * sizeof(float));
    network.load_parameters(static_cast<const float*>(device_parameters.data()));
  }

  /// The whole gradient arena.
  std::vector<float> run() {
    network.forward_backward(static_cast<float*>(gradients.data()), 1.0f);
    std::vector<float> host(network.gradient_count());
    backend->copy_to_host(host.data(), gradients.data(), gradients.bytes());
    return host;
  }
  double loss() { return run()[tensors.layout.size() + Network::kLossAt]; }

  /// Floats, or tokens for samples of one dimension; class numbers, or floats for a squared error.
  void give_batch(const std::function<void(const void*, const void*)>& take) const {
    const std::int64_t samples = network.samples();
    const auto classes = static_cast<std::uint32_t>(model.classes);
    std::vector<std::uint32_t> x(static_cast<std::size_t>(samples * tensor::element_count(model.sample)));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = model.sample.size() == 1 ? bits(2, i) % classes : value(2, i);
    const bool entropy = std::holds_alternative<kernels::CrossEntropy>(model.loss);
    const tensor::Shape predictions = wire(model, samples).layers.back().output;
    std::vector<std::uint32_t> y(static_cast<std::size_t>(kernels::target_count(model.loss, predictions)));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = entropy ? bits(3, i) % classes : value(3, i);
    take(x.data(), y.data());
  }

 private:
  static std::uint32_t bits(std::uint64_t stream, std::size_t i) { return Philox::block(1, stream, i)[0]; }
  static std::uint32_t value(std::uint64_t stream, std::size_t i) {
    return std::bit_cast<std::uint32_t>(Philox::uniform(bits(stream, i)) - 0.5f);
  }
};

}  // namespace distdl::model
