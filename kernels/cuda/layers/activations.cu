// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/activations.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class ReluLayer : public StatelessOf<T> {
 public:
  ReluLayer(SharedDevice device, const ActivationFormat& format) : StatelessOf<T>(format), device_(std::move(device)) {}
  bool works_in_place() const override { return true; }
  void forward(const T* x, T* y, Phase) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), Activate<elementwise::Relu, T>{x, y});
  }
  void backward_input(const T*, const T* y, const T* dy, T* dx) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), ReluInputGradient<T>{y, dy, dx});
  }

 private:
  SharedDevice device_;
};

template <class Function, class T>
class ActivationLayer : public StatelessOf<T> {
 public:
  ActivationLayer(SharedDevice device, const ActivationFormat& format)
      : StatelessOf<T>(format), device_(std::move(device)) {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), Activate<Function, T>{x, y});
  }
  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    fill_each(*device_, static_cast<std::size_t>(this->count()), ActivationGradient<Function, T>{x, dy, dx});
  }

 private:
  SharedDevice device_;
};

template <class T>
class GatedSiluLayer : public StatelessOf<T> {
 public:
  GatedSiluLayer(SharedDevice device, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(GatedSilu{}, input.shape), input.type)),
        device_(std::move(device)),
        width_(input.shape.back() / 2) {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    for_each_row(*device_, this->count() / width_, GatedSiluForward<T>{x, y, width_});
  }
  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    for_each_row(*device_, this->count() / width_, GatedSiluGradient<T>{x, dy, dx, width_});
  }

 private:
  SharedDevice device_;
  std::int64_t width_;
};
template <class T>
using GeluLayer = ActivationLayer<elementwise::Gelu, T>;
template <class T>
using GeluTanhLayer = ActivationLayer<elementwise::GeluTanh, T>;
template <class T>
using SiluLayer = ActivationLayer<elementwise::Silu, T>;
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Relu&, const ActivationFormat& input) {
  return make_of_type<ReluLayer>(input.type, device, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const Gelu& spec, const ActivationFormat& input) {
  return spec.tanh ? make_of_type<GeluTanhLayer>(input.type, device, input)
                   : make_of_type<GeluLayer>(input.type, device, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const Silu&, const ActivationFormat& input) {
  return make_of_type<SiluLayer>(input.type, device, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const GatedSilu&, const ActivationFormat& input) {
  return make_of_type<GatedSiluLayer>(input.type, device, input);
}

}  // namespace distdl::kernels::cuda
