// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/dropout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
/// Srivastava et al., "Dropout", 2014. The choice of values is computed again for the gradient, so nothing is stored.
template <class T>
class DropoutLayer : public StatelessOf<T> {
 public:
  DropoutLayer(SharedDevice device, const Dropout& spec, const ActivationFormat& format)
      : StatelessOf<T>(format), device_(std::move(device)), spec_(spec) {}
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase phase) override {
    if (phase == Phase::training) return drop(x, y);
    check(cudaMemcpyAsync(y, x, this->output().bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override { drop(dy, dx); }

 private:
  void drop(const T* from, T* to) const {
    const auto values = static_cast<std::size_t>(this->count());
    for_each(
        *device_, (values + 3) / 4,
        Drop<T>{device_->rng_key(), spec_.stream, spec_.probability, 1 / (1 - spec_.probability), from, to, values});
  }

  SharedDevice device_;
  Dropout spec_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Dropout& spec, const ActivationFormat& input) {
  return make_of_type<DropoutLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
