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
      : StatelessOf<T>(format),
        device_(std::move(device)),
        spec_(spec),
        width_(static_cast<std::size_t>(format.shape.back())),
        before_(static_cast<std::size_t>(spec.rows.first) * width_) {
    const auto places = [&] { return spec.rows.places > 0 ? spec.rows.places : format.shape.at(1); };
    run_ =
        spec.all == 0 ? before_ + static_cast<std::size_t>(this->count()) : static_cast<std::size_t>(places()) * width_;
    step_ = spec.all == 0 ? run_ : static_cast<std::size_t>(spec.all) * width_;
  }
  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase phase) override {
    if (phase == Phase::training) return drop(x, y);
    check(cudaMemcpyAsync(y, x, this->output().bytes, cudaMemcpyDeviceToDevice, device_->stream()), "copy on the GPU");
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override { drop(dy, dx); }

 private:
  void drop(const T* from, T* to) const {
    const auto values = static_cast<std::size_t>(this->count());
    const float scale = 1 / (1 - spec_.probability);
    if (spec_.all == 0 && before_ == 0)
      for_each(*device_, (values + 3) / 4,
               Drop<T>{device_->rng_key(), spec_.stream, spec_.probability, scale, from, to, values});
    else
      for_each(*device_, values,
               DropInChunk<T>{device_->rng_key(), spec_.stream, spec_.probability, scale, from, to, run_, step_,
                              static_cast<std::size_t>(spec_.first) * width_, before_});
  }

  SharedDevice device_;
  Dropout spec_;
  std::size_t width_, before_;  // values: of a place, and of the rows before a slice
  std::size_t run_, step_;      // see DropInChunk
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Dropout& spec, const ActivationFormat& input) {
  return make_of_type<DropoutLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
