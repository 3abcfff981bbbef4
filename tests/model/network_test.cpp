// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/model/network.hpp>

namespace distdl::model {
namespace {
std::size_t parameter_count(const ModelTensors& tensors) {
  std::size_t count = 0;
  for (const auto& tensor : tensors.tensors)
    if (tensor.spec.role == tensor::Role::parameter) count += tensor.view.count;
  return count;
}

TEST(Model, LenetHasTheShapesOfThePublishedOne) {
  auto tensors = tensors_of(describe_model({}, {1, 28, 28}, 10));
  EXPECT_EQ(parameter_count(tensors), 320u + 18496u + 401536u + 1290u);
  EXPECT_EQ(tensors.layout.find("conv2.weight")->shape, (tensor::Shape{64, 32, 3, 3}));
  EXPECT_EQ(tensors.layout.find("fc1.weight")->shape, (tensor::Shape{128, 64 * 7 * 7}));
}

TEST(Model, RefusesWhatDoesNotFit) {
  EXPECT_THROW(describe_model({.name = "resnet"}, {1, 28, 28}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {1, 2, 2}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {100}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {1, 28, 28}, 1), ConfigError);
  EXPECT_THROW(describe_model({.hidden = {0}}, {1, 28, 28}, 10), ConfigError);
}

TEST(Model, StartValuesDependOnTheSeedOnly) {
  auto tensors = tensors_of(describe_model({.name = "mlp"}, {1, 4, 4}, 3));
  std::vector<float> a(tensors.layout.size()), b(a), c(a);
  initialize(tensors, 5, a);
  initialize(tensors, 5, b);
  initialize(tensors, 6, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  float bound = 1 / std::sqrt(16.0f), largest = 0;
  const auto* weight = tensors.layout.find("fc1.weight");
  for (std::size_t i = 0; i < weight->count; ++i) largest = std::max(largest, std::abs(a[weight->offset + i]));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.9f * bound);
}

/// A network with everything it needs, on random input.
struct Bound {
  std::unique_ptr<kernels::Backend> backend;
  Description model;
  ModelTensors tensors;
  Network network;
  std::vector<float> parameters;
  tensor::Buffer device_parameters, gradients;

  Bound(const std::string& name, const Options& options)
      : backend(kernels::make_backend({.backend = name})),
        model(describe_model(options, {1, 8, 8}, 4)),
        tensors(tensors_of(model)),
        network(*backend, model, tensors, 6),
        parameters(tensors.layout.size()),
        device_parameters(backend->allocate(parameters.size() * sizeof(float))),
        gradients(backend->allocate(network.gradient_count() * sizeof(float))) {
    initialize(tensors, 3, parameters);
    std::vector<float> images(6 * 64);
    std::vector<std::int32_t> labels{0, 1, 2, 3, 0, 1};
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = Philox::uniform(Philox::block(1, 2, i)[0]) - 0.5f;
    network.set_batch(images.data(), labels.data());
    load();
  }
  void load() {
    backend->copy_from_host(device_parameters.data(), parameters.data(), parameters.size() * sizeof(float));
    network.load_parameters(static_cast<const float*>(device_parameters.data()));
  }
  std::vector<float> run() {
    network.forward_backward(static_cast<float*>(gradients.data()), 1.0f);
    std::vector<float> host(network.gradient_count());
    backend->copy_to_host(host.data(), gradients.data(), gradients.bytes());
    return host;
  }
};

class NetworkOn : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      kernels::make_backend({.backend = GetParam()});
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_P(NetworkOn, GradientsAgreeWithFiniteDifferences) {
  for (bool batch_norm : {false, true}) {
    Bound bound(GetParam(), {.name = "lenet", .hidden = {12}, .batch_norm = batch_norm});
    auto gradients = bound.run();
    for (const auto& tensor : bound.tensors.tensors) {
      if (tensor.spec.role == tensor::Role::statistic) continue;
      std::size_t i = tensor.view.offset + tensor.view.count / 2;
      const float h = 4e-4f, kept = bound.parameters[i];
      double loss[2];
      for (int side : {0, 1}) {
        bound.parameters[i] = kept + (side ? h : -h);
        bound.load();
        loss[side] = bound.run()[bound.tensors.layout.size() + Network::kLossAt];
      }
      bound.parameters[i] = kept;
      double slope = (loss[1] - loss[0]) / (2 * h);
      EXPECT_NEAR(gradients[i], slope, 5e-3 + 0.03 * std::abs(slope)) << tensor.view.name;
    }
    bound.load();
  }
}

TEST_P(NetworkOn, RepeatsTheSameBits) {
  Bound a(GetParam(), {}), b(GetParam(), {});
  EXPECT_EQ(a.run(), b.run());
  EXPECT_EQ(a.run(), b.run());
}

INSTANTIATE_TEST_SUITE_P(Backends, NetworkOn, ::testing::Values("reference", "onednn", "cuda"),
                         [](const auto& backend) { return backend.param; });
}  // namespace
}  // namespace distdl::model
