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
/// What its kernels count in 32 bits.
void require_countable(std::int64_t count, const char* what, const tensor::Shape& shape) {
  require(count <= std::numeric_limits<std::int32_t>::max(),
          "the cuda backend takes at most 2^31 - 1 {}, not {} of shape {}; take smaller microbatches", what, count,
          tensor::to_string(shape));
}

struct MakeLayer {
  const SharedDevice& device;
  const tensor::Shape& input;
  std::unique_ptr<Layer> operator()(const Linear& spec) const { return make_linear(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Conv2d& spec) const { return make_conv2d(device, spec, input); }
  std::unique_ptr<Layer> operator()(const MaxPool2d& spec) const { return make_max_pool2d(device, spec, input); }
  std::unique_ptr<Layer> operator()(const AveragePool2d& spec) const {
    return make_average_pool2d(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const GlobalAveragePool&) const { return make_global_average_pool(device, input); }
  std::unique_ptr<Layer> operator()(const Relu&) const { return make_relu(device, input); }
  std::unique_ptr<Layer> operator()(const Gelu& spec) const { return make_gelu(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Silu&) const { return make_silu(device, input); }
  std::unique_ptr<Layer> operator()(const GatedSilu&) const { return make_gated_silu(device, input); }
  std::unique_ptr<Layer> operator()(const BatchNorm& spec) const { return make_batch_norm(device, spec, input); }
  std::unique_ptr<Layer> operator()(const LayerNorm& spec) const { return make_layer_norm(device, spec, input); }
  std::unique_ptr<Layer> operator()(const RmsNorm& spec) const { return make_rms_norm(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Dropout& spec) const { return make_dropout(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Embedding& spec) const {
    require_countable(tensor::element_count(input), "numbers", input);
    require_countable(spec.entries, "rows of a table", input);
    return make_embedding(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const PositionEmbedding& spec) const {
    return make_position_embedding(device, spec, input);
  }
  std::unique_ptr<Layer> operator()(const ClassToken&) const { return make_class_token(device, input); }
  std::unique_ptr<Layer> operator()(const PixelsToSequence&) const { return make_pixels_to_sequence(device, input); }
  std::unique_ptr<Layer> operator()(const SelectPlace& spec) const { return make_select_place(device, spec, input); }
  std::unique_ptr<Layer> operator()(const Attention& spec) const { return make_attention(device, spec, input); }
};

struct MakeLoss {
  const SharedDevice& device;
  const tensor::Shape& predictions;
  std::unique_ptr<Loss> operator()(const CrossEntropy& spec) const {
    require_countable(loss_terms(spec, predictions), "rows of logits", predictions);
    require_countable(predictions.back(), "classes", predictions);
    return make_cross_entropy(device, spec, predictions);
  }
  std::unique_ptr<Loss> operator()(const MeanSquaredError&) const { return make_squared_error(device, predictions); }
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
    target_count(spec, predictions.shape);  // throws if they do not fit
    return std::visit(MakeLoss{device_, predictions.shape}, spec);
  }
  void set_noise(const Noise& noise) override { device_->set_noise(noise); }

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
