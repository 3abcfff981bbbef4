// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/layers/max_pool2d.hpp>
#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class MaxPool2dLayer : public StatelessOf<T> {
 public:
  MaxPool2dLayer(SharedDevice device, const MaxPool2d& spec, const ActivationFormat& input)
      : StatelessOf<T>(like(input, output_shape(spec, input.shape))),
        device_(std::move(device)),
        windows_(windows_over(input, this->output(), spec.kernel, spec.stride, spec.padding)),
        inputs_(input.elements()) {}

  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    for_each(*device_, static_cast<std::size_t>(this->count()), MaxPoolForward<T>{x, y, windows_});
  }
  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    for_each(*device_, inputs_, MaxPoolBackward<T>{x, dy, dx, windows_});
  }

 private:
  SharedDevice device_;
  PoolWindows windows_;
  std::size_t inputs_;  // elements
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const MaxPool2d& spec, const ActivationFormat& input) {
  return make_of_type<MaxPool2dLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
