// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/activations.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/rows.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
class ReluLayer : public Stateless {
 public:
  ReluLayer(SharedDevice device, const tensor::Shape& shape) : Stateless(dense(shape)), device_(std::move(device)) {}
  void forward(const float* x, float* y, Phase) override {
    for_each(*device_, static_cast<std::size_t>(count()), Activate<elementwise::Relu>{x, y});
  }
  void backward_input(const float*, const float* y, const float* dy, float* dx) override {
    for_each(*device_, static_cast<std::size_t>(count()), ReluInputGradient{y, dy, dx});
  }

 private:
  SharedDevice device_;
};

template <class Function>
class ActivationLayer : public Stateless {
 public:
  ActivationLayer(SharedDevice device, const tensor::Shape& shape)
      : Stateless(dense(shape)), device_(std::move(device)) {}
  void forward(const float* x, float* y, Phase) override {
    for_each(*device_, static_cast<std::size_t>(count()), Activate<Function>{x, y});
  }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for_each(*device_, static_cast<std::size_t>(count()), ActivationGradient<Function>{x, dy, dx});
  }

 private:
  SharedDevice device_;
};

class GatedSiluLayer : public Stateless {
 public:
  GatedSiluLayer(SharedDevice device, const tensor::Shape& output)
      : Stateless(dense(output)), device_(std::move(device)), width_(output.back()) {}
  void forward(const float* x, float* y, Phase) override {
    for_each_row(*device_, count() / width_, GatedSiluForward{x, y, width_});
  }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for_each_row(*device_, count() / width_, GatedSiluGradient{x, dy, dx, width_});
  }

 private:
  SharedDevice device_;
  std::int64_t width_;
};
}  // namespace

std::unique_ptr<Layer> make_relu(SharedDevice device, const tensor::Shape& input) {
  return std::make_unique<ReluLayer>(std::move(device), input);
}
std::unique_ptr<Layer> make_gelu(SharedDevice device, const Gelu& spec, const tensor::Shape& input) {
  if (spec.tanh) return std::make_unique<ActivationLayer<elementwise::GeluTanh>>(std::move(device), input);
  return std::make_unique<ActivationLayer<elementwise::Gelu>>(std::move(device), input);
}
std::unique_ptr<Layer> make_silu(SharedDevice device, const tensor::Shape& input) {
  return std::make_unique<ActivationLayer<elementwise::Silu>>(std::move(device), input);
}
std::unique_ptr<Layer> make_gated_silu(SharedDevice device, const tensor::Shape& input) {
  return std::make_unique<GatedSiluLayer>(std::move(device), output_shape(GatedSilu{}, input));
}

}  // namespace distdl::kernels::cuda
