// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/layers/squared_error.hpp>
#include <distdl/kernels/cuda/primitives/launch.cuh>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class SquaredErrorLoss : public Loss {
 public:
  SquaredErrorLoss(SharedDevice device, const ActivationFormat& predictions)
      : device_(std::move(device)),
        samples_(predictions.shape[0]),
        values_(tensor::element_count(predictions.shape) / samples_),
        errors_(device_->allocate(sizeof(double) * static_cast<std::size_t>(samples_))) {}

  void forward_backward(const void* given, const void* targets, float scale, void* to, float* totals) override {
    const auto* predictions = static_cast<const T*>(given);
    auto* gradient = static_cast<T*>(to);
    const auto* wanted = static_cast<const float*>(targets);
    auto* errors = static_cast<double*>(errors_.data());
    sum_each(*device_, samples_, values_, SampleError<T>{predictions, wanted, errors, values_});
    sum_each(*device_, 1, samples_, TotalError{errors, totals, samples_});
    if (gradient == nullptr) return;
    const double of_error = 2 * static_cast<double>(scale) / static_cast<double>(values_);
    for_each(*device_, static_cast<std::size_t>(samples_ * values_),
             ErrorGradient<T>{predictions, wanted, gradient, of_error});
  }

 private:
  SharedDevice device_;
  std::int64_t samples_, values_;
  tensor::Buffer errors_;  // (samples) doubles
};
}  // namespace

std::unique_ptr<Loss> make_squared_error(SharedDevice device, const ActivationFormat& predictions) {
  return make_of_type<SquaredErrorLoss, Loss>(predictions.type, device, predictions);
}

}  // namespace distdl::kernels::cuda
