// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/squared_error.hpp>

namespace distdl::kernels::cuda {
namespace {
class SquaredErrorLoss : public Loss {
 public:
  SquaredErrorLoss(SharedDevice device, const tensor::Shape& predictions)
      : device_(std::move(device)),
        samples_(predictions[0]),
        values_(tensor::element_count(predictions) / samples_),
        errors_(device_->allocate(sizeof(double) * static_cast<std::size_t>(samples_))) {}

  void forward_backward(const float* predictions, const void* targets, float scale, float* gradient,
                        float* totals) override {
    const auto* wanted = static_cast<const float*>(targets);
    auto* errors = static_cast<double*>(errors_.data());
    sum_each(*device_, samples_, values_, SampleError{predictions, wanted, errors, values_});
    sum_each(*device_, 1, samples_, TotalError{errors, totals, samples_});
    if (gradient == nullptr) return;
    const double of_error = 2 * static_cast<double>(scale) / static_cast<double>(values_);
    for_each(*device_, static_cast<std::size_t>(samples_ * values_),
             ErrorGradient{predictions, wanted, gradient, of_error});
  }

 private:
  SharedDevice device_;
  std::int64_t samples_, values_;
  tensor::Buffer errors_;  // (samples) doubles
};
}  // namespace

std::unique_ptr<Loss> make_squared_error(SharedDevice device, const tensor::Shape& predictions) {
  return std::make_unique<SquaredErrorLoss>(std::move(device), predictions);
}

}  // namespace distdl::kernels::cuda
