// SPDX-License-Identifier: Apache-2.0
// A layer that computes the activation after it gives what the two give one after the other.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"

namespace distdl::kernels::test {
namespace {
struct Pair {
  LayerSpec layer, next;
  tensor::Shape input;
};

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all = [] {
    std::vector<Pair> pairs;
    for (const LayerSpec& next : {LayerSpec(Relu{}), LayerSpec(Gelu{.tanh = false}), LayerSpec(Gelu{.tanh = true})}) {
      pairs.push_back({Linear{24}, next, {5, 16}});
      pairs.push_back({Linear{13}, next, {5, 16}});
      pairs.push_back({Linear{24, false}, next, {2, 3, 16}});
      pairs.push_back({Conv2d{.out = 8, .kernel = 3, .padding = 1}, next, {2, 3, 6, 5}});
      pairs.push_back({BatchNorm{}, next, {4, 8, 5, 3}});
    }
    return pairs;
  }();
  return all;
}

/// The two layers of a pair on one backend.
class Two {
 public:
  Two(Backend& backend, const Pair& pair, bool may_fuse)
      : backend_(backend),
        input_(dense(pair.input, backend.activation_type())),
        layer_(backend.layer(pair.layer, input_)),
        next_(backend.layer(pair.next, layer_->output())),
        is_in_place_(next_->works_in_place() && !layer_->backward_reads_output()),
        does_(may_fuse ? layer_->fuse(pair.next, is_in_place_) : Fusion::none),
        x_(backend.allocate(input_.bytes)),
        y_(backend.allocate(layer_->output().bytes)),
        next_y_(backend.allocate(is_in_place_ ? 0 : next_->output().bytes)) {
    std::vector<const float*> places;
    for (const Values& values : random_parameters(pair.layer, pair.input, 1)) {
      parameters_.push_back(upload(values));
      places.push_back(static_cast<const float*>(parameters_.back().data()));
    }
    layer_->load_parameters(places);
  }

  bool fuses() const { return does_ != Fusion::none; }

  /// The outputs of both, or of the second one where they are one memory.
  std::vector<Values> forward(const Values& x, Phase phase) {
    backend_.from_dense(input_, static_cast<const float*>(upload(x).data()), x_.data());
    void* const last = is_in_place_ ? y_.data() : next_y_.data();
    if (fuses()) {
      layer_->forward_fused(x_.data(), y_.data(), last, phase);
    } else {
      layer_->forward(x_.data(), y_.data(), phase);
      next_->forward(y_.data(), last, phase);
    }
    std::vector<Values> outputs{download(next_->output(), last)};
    if (!is_in_place_) outputs.push_back(download(layer_->output(), y_.data()));
    return outputs;
  }

 private:
  tensor::Buffer upload(const Values& values) {
    auto buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.copy_from_host(buffer.data(), values.data(), buffer.bytes());
    return buffer;
  }
  Values download(const ActivationFormat& format, const void* from) {
    Values values(static_cast<std::size_t>(tensor::element_count(format.shape)));
    auto buffer = backend_.allocate(values.size() * sizeof(float));
    backend_.to_dense(format, from, static_cast<float*>(buffer.data()));
    backend_.copy_to_host(values.data(), buffer.data(), buffer.bytes());
    return values;
  }

  Backend& backend_;
  ActivationFormat input_;
  std::unique_ptr<Layer> layer_, next_;
  bool is_in_place_;
  Fusion does_;
  tensor::Buffer x_, y_, next_y_;
  std::vector<tensor::Buffer> parameters_;
};

class Fusions : public EachBackend {
 protected:
  void SetUp() override {
    EachBackend::SetUp();
    if (IsSkipped()) return;
    std::string reason;
    for (const char* precision : {"fp32", "bf16", "fp16"})
      if (auto backend = try_backend(GetParam(), reason, precision)) backends_.push_back(std::move(backend));
  }
  std::vector<std::unique_ptr<Backend>> backends_;
};

TEST_P(Fusions, GiveWhatTheTwoLayersGive) {
  for (auto& backend : backends_) {
    const float near = backend->activation_type() == tensor::DataType::float32    ? 2e-6f
                       : backend->activation_type() == tensor::DataType::bfloat16 ? 0.04f
                                                                                  : 0.005f;
    for (const Pair& pair : pairs()) {
      Two apart(*backend, pair, false), together(*backend, pair, true);
      if (!together.fuses()) continue;
      for (Phase phase : {Phase::training, Phase::evaluation}) {
        const Values x = random_values(tensor::element_count(pair.input), 2);
        const auto expected = apart.forward(x, phase), outputs = together.forward(x, phase);
        for (std::size_t i = 0; i < outputs.size(); ++i)
          EXPECT_THAT(outputs[i], testing::Pointwise(testing::FloatNear(near), expected[i])) << i;
      }
    }
  }
}

TEST_P(Fusions, KeepEachNaN) {
  for (auto& backend : backends_)
    for (const Pair& pair : pairs()) {
      Two apart(*backend, pair, false), together(*backend, pair, true);
      if (!together.fuses()) continue;
      Values x = random_values(tensor::element_count(pair.input), 2);
      x[7] = std::numeric_limits<float>::quiet_NaN();
      const Values expected = apart.forward(x, Phase::training)[0], y = together.forward(x, Phase::training)[0];
      for (std::size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(!std::isnan(expected[i]) || std::isnan(y[i])) << i;
    }
}

TEST(OneDnnFusion, TakesReluIntoBatchNorm) {
  std::string reason;
  auto backend = try_backend("onednn", reason);
  if (!backend) GTEST_SKIP() << reason;
  const auto layer = [&] { return backend->layer(BatchNorm{}, dense({2, 3})); };
  EXPECT_EQ(layer()->fuse(Relu{}, true), Fusion::whole);
  EXPECT_EQ(layer()->fuse(Relu{}, false), Fusion::none);
  EXPECT_EQ(layer()->fuse(Gelu{}, true), Fusion::none);
}

TEST(CudaFusion, TakesReluIntoBatchNormAndTanhGeluIntoLinear) {
  std::string reason;
  auto backend = try_backend("cuda", reason, "bf16");
  if (!backend) GTEST_SKIP() << reason;
  const auto input = dense({16, 16}, backend->activation_type());
  EXPECT_EQ(backend->layer(BatchNorm{}, input)->fuse(Relu{}, true), Fusion::whole);
  EXPECT_EQ(backend->layer(BatchNorm{}, input)->fuse(Relu{}, false), Fusion::none);
  EXPECT_EQ(backend->layer(Linear{24}, input)->fuse(Gelu{.tanh = true}, false), Fusion::forward);
  EXPECT_EQ(backend->layer(Linear{13}, input)->fuse(Gelu{.tanh = true}, false), Fusion::none);
  EXPECT_EQ(backend->layer(Linear{24}, input)->fuse(Gelu{}, false), Fusion::none);
}

TEST(CudaFusion, TakesReluIntoAConvolutionWithABias) {
  std::string reason;
  auto backend = try_backend("cuda", reason, "bf16");
  if (!backend) GTEST_SKIP() << reason;
  const auto layer = [&](bool bias) {
    return backend->layer(Conv2d{.out = 8, .kernel = 3, .bias = bias}, dense({2, 8, 6, 6}, backend->activation_type()));
  };
  EXPECT_EQ(layer(true)->fuse(Relu{}, true), Fusion::forward);
  EXPECT_EQ(layer(true)->fuse(Relu{}, false), Fusion::none);
  EXPECT_EQ(layer(false)->fuse(Relu{}, true), Fusion::none);
  EXPECT_EQ(layer(true)->fuse(Gelu{}, true), Fusion::none);
}

DISTDL_ON_EACH_BACKEND(Fusions);
}  // namespace
}  // namespace distdl::kernels::test
