// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/attention/attention_plans.hpp>
#include <distdl/kernels/cuda/attention/rotate_heads.cuh>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
/// cuDNN's workspace, which grows with the square of the places, may take 1 / kPartOfMemory of the GPU's memory.
constexpr std::size_t kPartOfMemory = 16;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// Keeps a logarithm for each query.
template <class T>
class DnnAttentionLayer : public StatelessOf<T> {
 public:
  DnnAttentionLayer(SharedDevice device, const Attention& spec, const ActivationFormat& input,
                    std::shared_ptr<const AttentionPlans> plans)
      : StatelessOf<T>(dense(output_shape(spec, input.shape), input.type)),
        device_(std::move(device)),
        plans_(std::move(plans)),
        rows_(extents_of(spec, input.shape).rows()),
        sum_bytes_(device_->is_deterministic()
                       ? 0
                       : sizeof(float) * static_cast<std::size_t>(extents_of(spec, input.shape).queries())),
        logarithms_(device_->allocate(rows_ * sizeof(float))),
        turns_(*device_, extents_of(spec, input.shape), spec.rotary_base) {
    device_->reserve_scratch(workspace_offset() + plans_->workspace_bytes());
  }

  void forward(const T* x, T* y, Phase phase) override {
    // Backward may still need the logarithms of the last training forward.
    float* const logarithms = phase == Phase::evaluation ? rows_in_scratch() : static_cast<float*>(logarithms_.data());
    plans_->run(device_->dnn(), AttentionForward{turn(x), y, logarithms}, dnn_workspace());
  }

  void backward_input(const T* x, const T* y, const T* dy, T* dx) override {
    const auto* const logarithms = static_cast<const float*>(logarithms_.data());
    plans_->run(device_->dnn(), AttentionBackward{turn(x), y, dy, logarithms, rows_in_scratch(), dqueries_sum(), dx},
                dnn_workspace());
    turns_.turn_back(*device_, dx);
  }

 private:
  // In the scratch: a float for each query, the gradient of the queries in fp32, x turned, cuDNN's workspace.
  std::size_t sum_offset() const { return aligned(rows_ * sizeof(float)); }
  std::size_t turned_offset() const { return sum_offset() + aligned(sum_bytes_); }
  std::size_t workspace_offset() const { return turned_offset() + aligned(turns_.bytes()); }
  char* scratch() const { return static_cast<char*>(device_->scratch()); }
  float* rows_in_scratch() const { return static_cast<float*>(device_->scratch()); }
  float* dqueries_sum() const { return sum_bytes_ == 0 ? nullptr : reinterpret_cast<float*>(scratch() + sum_offset()); }
  const T* turn(const T* x) const { return turns_.turn(*device_, x, scratch() + turned_offset()); }
  void* dnn_workspace() const { return scratch() + workspace_offset(); }

  SharedDevice device_;
  std::shared_ptr<const AttentionPlans> plans_;
  std::size_t rows_;           // queries of all heads
  std::size_t sum_bytes_;      // bytes of sums of query gradients, where atomic additions make them
  tensor::Buffer logarithms_;  // (N, heads, T) floats
  HeadTurns<T> turns_;
};
}  // namespace

std::unique_ptr<Layer> make_dnn_attention(SharedDevice device, const Attention& spec, const ActivationFormat& input) {
  const AttentionExtents of = extents_of(spec, input.shape);
  const std::vector<std::int64_t> key{
      of.samples, of.places, of.heads, of.kv_heads, of.width, of.is_causal, static_cast<std::int64_t>(input.type)};
  std::unique_ptr<Layer> layer;
  const bool fits = fits_in_memory([&] {  // our own kernels need less
    std::size_t free = 0, total = 0;
    const cudnnHandle_t dnn = device->dnn();
    check(cudaMemGetInfo(&free, &total), "get the size of the GPU's memory");
    auto plans = device->attention_plans().get(key, [&] {
      return AttentionPlans(of, input.type, {dnn, nullptr}, {total / kPartOfMemory, device->is_deterministic()});
    });
    if (!plans) return;
    if (input.type == tensor::DataType::bfloat16)
      layer = std::make_unique<DnnAttentionLayer<tensor::Bfloat16>>(device, spec, input, std::move(plans));
    else
      layer = std::make_unique<DnnAttentionLayer<tensor::Float16>>(device, spec, input, std::move(plans));
  });
  return fits ? std::move(layer) : nullptr;
}

}  // namespace distdl::kernels::cuda
