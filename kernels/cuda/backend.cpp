// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <memory>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/accelerator.hpp>
#include <distdl/kernels/cuda/backend.hpp>
#include <distdl/kernels/cuda/choose_gpu.hpp>
#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/staging_ring.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class Spec>
void refuse(bool wanted, const Spec& spec, const char* what) {
  require(!wanted, "the cuda backend has no {} layer {} yet; kernels.backend = \"onednn\" has", kind_of(spec), what);
}

struct MakeLayer {
  const SharedDevice& device;
  const tensor::Shape& input;
  std::unique_ptr<Layer> operator()(const Linear& spec) const {
    refuse(!spec.bias, spec, "without bias");
    refuse(input.size() == 3, spec, "of sequences");
    return make_linear(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const Conv2d& spec) const {
    refuse(spec.dilation != 1 || spec.groups != 1, spec, "with dilation or groups");
    return make_conv2d(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const MaxPool2d& spec) const {
    refuse(spec.padding != 0, spec, "with padding");
    return make_max_pool2d(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const Relu&) const { return make_relu(device, input); }
  std::unique_ptr<Layer> operator()(const BatchNorm& spec) const { return make_batch_norm(device, spec, input); }
  template <class Other>
  std::unique_ptr<Layer> operator()(const Other& spec) const {
    throw ConfigError("the cuda backend has no " + kind_of(spec) + " layer yet; kernels.backend = \"onednn\" has");
  }
};

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int gpu) : device_(std::make_shared<Device>(gpu)), staging_(*device_) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override { return device_->description(); }

  tensor::Buffer allocate(std::size_t bytes) override { return device_->allocate(bytes); }
  tensor::Buffer allocate_staging(std::size_t bytes) override { return device_->allocate_pinned(bytes); }
  bool memory_is_host() const override { return false; }

  void copy_from_host(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return;
    if (bytes <= StagingRing::kSlotBytes) return staging_.send(*device_, to, from, bytes);
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device_->stream()), "copy to the GPU");
    device_->wait();  // then the caller may change the bytes
  }

  void copy_to_host(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, device_->stream()), "copy from the GPU");
    device_->wait();
  }

  void copy(float* to, const float* from, std::size_t count) override {
    check(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice, device_->stream()),
          "copy on the GPU");
  }

  std::shared_ptr<tensor::Accelerator> accelerator() override {
    if (!accelerator_) accelerator_ = make_accelerator(device_);
    return accelerator_;
  }

  void fill(float* data, std::size_t count, float value) override { cuda::fill(*device_, data, count, value); }
  void add(float* accumulate, const float* addend, std::size_t count) override {
    cuda::add(*device_, accumulate, addend, count);
  }
  void sgd(const SgdStep& step, float* parameters, float* momentum, const float* gradients,
           std::size_t count) override {
    cuda::sgd(*device_, step, parameters, momentum, gradients, count);
  }
  void lars(const LarsStep& step, float* parameters, float* velocity, const float* gradients,
            std::size_t count) override {
    cuda::lars(*device_, step, parameters, velocity, gradients, count);
  }
  void adamw(const AdamStep& step, float* parameters, float* first, float* second, const float* gradients,
             std::size_t count) override {
    cuda::adamw(*device_, step, parameters, first, second, gradients, count);
  }
  void lamb_moments(const AdamStep& step, const float* parameters, float* first, float* second, const float* gradients,
                    std::size_t count, double* sum) override {
    cuda::lamb_moments(*device_, step, parameters, first, second, gradients, count, sum);
  }
  void lamb(const AdamStep& step, float* parameters, const float* first, const float* second,
            std::size_t count) override {
    cuda::lamb(*device_, step, parameters, first, second, count);
  }
  void sum_of_squares(const float* data, std::size_t count, double* sum) override {
    cuda::sum_of_squares(*device_, data, count, sum);
  }
  void running_average(float* value, const float* observed, float weight, float scale, std::size_t count) override {
    cuda::running_average(*device_, value, observed, weight, scale, count);
  }

  std::unique_ptr<Layer> layer(const LayerSpec& spec, const ActivationFormat& input) override {
    output_shape(spec, input.shape);  // throws if they do not fit
    return std::visit(MakeLayer{device_, input.shape}, spec);
  }
  std::unique_ptr<Loss> loss(const LossSpec& spec, const ActivationFormat& predictions) override {
    const tensor::Shape& shape = predictions.shape;
    target_count(spec, shape);  // throws if they do not fit
    const auto* entropy = std::get_if<CrossEntropy>(&spec);
    require(entropy && entropy->smoothing == 0 && !entropy->ignore && shape.size() == 2,
            "the cuda backend has no loss but cross-entropy of rows yet, without smoothing and ignored labels{}",
            "; kernels.backend = \"onednn\" has");
    require(tensor::element_count(shape) <= std::numeric_limits<std::int32_t>::max(),
            "the loss takes at most 2^31 - 1 logits, not {}", tensor::to_string(shape));
    return make_softmax_cross_entropy(device_, predictions);
  }
  void set_noise(const Noise&) override {}  // no layer draws any yet

 private:
  SharedDevice device_;
  StagingRing staging_;
  std::shared_ptr<tensor::Accelerator> accelerator_;  ///< once it was asked for
};
}  // namespace

std::unique_ptr<Backend> make_backend(const Options& options) {
  return std::make_unique<CudaBackend>(choose_gpu(options.device));
}

}  // namespace distdl::kernels::cuda
