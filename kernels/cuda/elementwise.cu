// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/elementwise/optimizers.hpp>
#include <distdl/kernels/elementwise/ordered_sum.hpp>

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

/// An update that keeps one moment.
template <class Function>
struct MomentumUpdate {
  Function update;
  float* parameters;
  float* momentum;
  const float* gradients;
  __device__ void operator()(std::size_t i) const { update(parameters[i], momentum[i], gradients[i]); }
};

struct AdamW {
  elementwise::AdamUpdate update;
  float* parameters;
  float* first;
  float* second;
  const float* gradients;
  __device__ void operator()(std::size_t i) const { update(parameters[i], first[i], second[i], gradients[i]); }
};

struct Lamb {
  elementwise::LambUpdate update;
  float* parameters;
  const float* first;
  const float* second;
  __device__ void operator()(std::size_t i) const { update(parameters[i], first[i], second[i]); }
};

struct Square {
  const float* data;
  __device__ double operator()(std::size_t i) const { return elementwise::Square{}(data[i]); }
};

struct LambTerm {
  elementwise::LambMoments moments;
  const float* parameters;
  float* first;
  float* second;
  const float* gradients;
  __device__ double operator()(std::size_t i) const {
    return moments(parameters[i], first[i], second[i], gradients[i]);
  }
};

/// The partial sums of ordered_sum.hpp.
template <class Term>
struct Parts {
  Term term;
  std::size_t count;
  double* sums;
  __device__ double operator()(std::int64_t part, std::int64_t j) const {
    const std::size_t i = static_cast<std::size_t>(part) * elementwise::kPart + static_cast<std::size_t>(j);
    return i < count ? term(i) : 0.0;
  }
  __device__ void finish(std::int64_t part, double sum) const { sums[part] = sum; }
};

struct SumOfParts {
  const double* parts;
  double* sum;
  __device__ double operator()(std::int64_t, std::int64_t j) const { return parts[j]; }
  __device__ void finish(std::int64_t, double total) const { *sum = total; }
};

/// elementwise::ordered_sum() on the GPU.
template <class Term>
void ordered_sum(Device& device, std::size_t count, const Term& term, double* sum) {
  const std::size_t parts = elementwise::parts_of(count);
  device.reserve_scratch(parts * sizeof(double));
  auto* sums = static_cast<double*>(device.scratch());
  sum_each(device, static_cast<std::int64_t>(parts), elementwise::kPart, Parts<Term>{term, count, sums});
  sum_each(device, 1, static_cast<std::int64_t>(parts), SumOfParts{sums, sum});
}
}  // namespace

void fill(const Device& device, float* data, std::size_t count, float value) {
  for_each(device, count, Fill{data, value});
}

void add(const Device& device, float* accumulate, const float* addend, std::size_t count) {
  for_each(device, count, Update<elementwise::Add>{{}, accumulate, addend});
}

void sgd(const Device& device, const SgdStep& step, float* parameters, float* momentum, const float* gradients,
         std::size_t count) {
  for_each(device, count, MomentumUpdate<elementwise::SgdUpdate>{{step}, parameters, momentum, gradients});
}

void lars(const Device& device, const LarsStep& step, float* parameters, float* velocity, const float* gradients,
          std::size_t count) {
  for_each(device, count, MomentumUpdate<elementwise::LarsUpdate>{{step}, parameters, velocity, gradients});
}

void adamw(const Device& device, const AdamStep& step, float* parameters, float* first, float* second,
           const float* gradients, std::size_t count) {
  for_each(device, count, AdamW{{step}, parameters, first, second, gradients});
}

void lamb_moments(Device& device, const AdamStep& step, const float* parameters, float* first, float* second,
                  const float* gradients, std::size_t count, double* sum) {
  ordered_sum(device, count, LambTerm{{step}, parameters, first, second, gradients}, sum);
}

void lamb(const Device& device, const AdamStep& step, float* parameters, const float* first, const float* second,
          std::size_t count) {
  for_each(device, count, Lamb{{step}, parameters, first, second});
}

void sum_of_squares(Device& device, const float* data, std::size_t count, double* sum) {
  ordered_sum(device, count, Square{data}, sum);
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
