// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/layers.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr int kWarp = 32;
constexpr int kRowsPerBlock = 8;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Rows {
  const float* logits;  // (samples, classes)
  const std::int32_t* labels;
  float scale;
  float* dlogits;  // may be nullptr
  double* losses;  // (samples)
  double* hits;    // (samples), 0 or 1
  std::int32_t samples;
  std::int32_t classes;
  __device__ bool is_class(std::int32_t label) const { return 0 <= label && label < classes; }
};

struct Best {
  float value;
  std::int32_t at;
};

/// The larger of two; of equal ones the first.
__device__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/// A butterfly: all lanes end with the same best.
__device__ Best best_of_warp(Best best) {
  for (int other = kWarp / 2; other > 0; other /= 2)
    best =
        better(best, Best{__shfl_xor_sync(kAllLanes, best.value, other), __shfl_xor_sync(kAllLanes, best.at, other)});
  return best;
}

/// A butterfly in a fixed order; a + b = b + a makes all lanes end with the same bits.
__device__ double sum_of_warp(double sum) {
  for (int other = kWarp / 2; other > 0; other /= 2) sum += __shfl_xor_sync(kAllLanes, sum, other);
  return sum;
}

/// One warp per row. Subtracts the largest logit first, so that large logits are no trouble.
__global__ void __launch_bounds__(kWarp* kRowsPerBlock) row_kernel(Rows rows) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kWarp);
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp;
  if (row >= rows.samples) return;  // the whole warp does
  const float* logits = rows.logits + row * rows.classes;

  Best best{-std::numeric_limits<float>::infinity(), rows.classes};
  for (std::int32_t c = lane; c < rows.classes; c += kWarp) best = better(best, Best{logits[c], c});
  best = best_of_warp(best);
  double sum = 0;
  for (std::int32_t c = lane; c < rows.classes; c += kWarp) sum += exp(static_cast<double>(logits[c]) - best.value);
  sum = sum_of_warp(sum);

  const std::int32_t label = rows.labels[row];
  if (lane == 0) {
    rows.losses[row] =
        rows.is_class(label) ? log(sum) + best.value - logits[label] : std::numeric_limits<double>::quiet_NaN();
    rows.hits[row] = best.at == label ? 1 : 0;
  }
  if (rows.dlogits == nullptr) return;
  float* gradient = rows.dlogits + row * rows.classes;
  for (std::int32_t c = lane; c < rows.classes; c += kWarp) {
    const double probability = exp(static_cast<double>(logits[c]) - best.value) / sum;
    gradient[c] = static_cast<float>((probability - (c == label ? 1.0 : 0.0)) * rows.scale);
  }
}

/// One block. Reports the first sample whose label is no class.
__global__ void __launch_bounds__(kLanes) check_labels_kernel(Rows rows, LabelFault* fault) {
  __shared__ std::int32_t first;
  if (threadIdx.x == 0) first = rows.samples;
  __syncthreads();
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < rows.samples; i += kLanes)
    if (!rows.is_class(rows.labels[i])) atomicMin(&first, i);
  __syncthreads();
  if (threadIdx.x == 0 && first < rows.samples && fault->is_set == 0)
    *fault = LabelFault{1, first, rows.labels[first], rows.classes};
}

/// totals[0] = sum of the losses, totals[1] = sum of the hits.
struct Totals {
  const double* losses_and_hits;  // (2, samples)
  float* totals;
  std::int64_t samples;
  __device__ double operator()(std::int64_t which, std::int64_t j) const {
    return losses_and_hits[which * samples + j];
  }
  __device__ void finish(std::int64_t which, double sum) const { totals[which] = static_cast<float>(sum); }
};

class SoftmaxCrossEntropy : public Loss {
 public:
  SoftmaxCrossEntropy(SharedDevice device, const ActivationFormat& logits)
      : device_(std::move(device)),
        samples_(static_cast<std::int32_t>(logits.shape[0])),
        classes_(static_cast<std::int32_t>(logits.shape[1])),
        state_(device_->allocate(sizeof(double) * 2 * static_cast<std::size_t>(samples_))) {}

  void forward_backward(const float* logits, const void* labels, float scale, float* dlogits, float* totals) override {
    auto* losses = static_cast<double*>(state_.data());
    Rows rows{logits,  static_cast<const std::int32_t*>(labels), scale, dlogits, losses, losses + samples_, samples_,
              classes_};
    const auto blocks = static_cast<unsigned>((samples_ + kRowsPerBlock - 1) / kRowsPerBlock);
    row_kernel<<<blocks, kWarp * kRowsPerBlock, 0, device_->stream()>>>(rows);
    check(cudaGetLastError(), "start the loss");
    check_labels_kernel<<<1, kLanes, 0, device_->stream()>>>(rows, device_->label_fault());
    check(cudaGetLastError(), "start the check of the labels");
    sum_each(*device_, 2, samples_, Totals{losses, totals, samples_});
    fill(*device_, totals + 2, 1, static_cast<float>(samples_));
  }

 private:
  SharedDevice device_;
  std::int32_t samples_;
  std::int32_t classes_;
  tensor::Buffer state_;  // (2, samples) doubles: losses, hits
};
}  // namespace

std::unique_ptr<Loss> make_softmax_cross_entropy(SharedDevice device, const ActivationFormat& logits) {
  return std::make_unique<SoftmaxCrossEntropy>(std::move(device), logits);
}

}  // namespace distdl::kernels::cuda
