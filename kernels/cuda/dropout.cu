// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/dropout.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
/// Srivastava et al., "Dropout", 2014. Which values stay is drawn anew for the gradient: nothing is kept.
class DropoutLayer : public Stateless {
 public:
  DropoutLayer(SharedDevice device, const Dropout& spec, const tensor::Shape& shape)
      : Stateless(dense(shape)), device_(std::move(device)), spec_(spec) {}
  void forward(const float* x, float* y, Phase phase) override {
    if (phase == Phase::training) return drop(x, y);
    check(cudaMemcpyAsync(y, x, output().bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override { drop(dy, dx); }

 private:
  void drop(const float* from, float* to) const {
    const auto values = static_cast<std::size_t>(count());
    const elementwise::Stays stays{device_->noise(), spec_.stream, spec_.probability};
    for_each(*device_, (values + 3) / 4, Drop{stays, 1 / (1 - spec_.probability), from, to, values});
  }

  SharedDevice device_;
  Dropout spec_;
};
}  // namespace

std::unique_ptr<Layer> make_dropout(SharedDevice device, const Dropout& spec, const tensor::Shape& input) {
  return std::make_unique<DropoutLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
