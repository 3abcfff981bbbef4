// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::cuda {
namespace {
struct Fill {
  float* data;
  float value;
  __device__ void operator()(std::size_t i) const { data[i] = value; }
};

/// out[i] = function(out[i], other[i])
template <class Function>
struct Update {
  Function function;
  float* out;
  const float* other;
  __device__ void operator()(std::size_t i) const { out[i] = function(out[i], other[i]); }
};

struct Sgd {
  elementwise::SgdUpdate update;
  float* parameters;
  float* momentum;
  const float* gradients;
  __device__ void operator()(std::size_t i) const { update(parameters[i], momentum[i], gradients[i]); }
};
}  // namespace

void fill(const Device& device, float* data, std::size_t count, float value) {
  for_each(device, count, Fill{data, value});
}

void add(const Device& device, float* accumulate, const float* addend, std::size_t count) {
  for_each(device, count, Update<elementwise::Add>{{}, accumulate, addend});
}

void sgd(const Device& device, const SgdStep& step, float* parameters, float* momentum, const float* gradients,
         std::size_t count) {
  for_each(device, count, Sgd{{step}, parameters, momentum, gradients});
}

void running_average(const Device& device, float* value, const float* observed, float weight, float scale,
                     std::size_t count) {
  for_each(device, count, Update<elementwise::RunningAverage>{{weight, scale}, value, observed});
}

cudaError_t probe_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, for_each_kernel<Fill>);
}

}  // namespace distdl::kernels::cuda
