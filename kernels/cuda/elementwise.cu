// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/swap_axes.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/elementwise/optimizers.hpp>
#include <distdl/kernels/elementwise/ordered_sum.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda {
namespace {
struct Fill {
  float* data;
  float value;
  __device__ void operator()(std::size_t i) const { data[i] = value; }
};

struct StoreNoise {
  Noise noise;
  Noise* to;
  __device__ void operator()(std::size_t) const { *to = noise; }
};

/// out[i] = function(out[i], other[i])
template <class Function, class T = float>
struct Update {
  Function function;
  T* out;
  const T* other;
  __device__ T* target() const { return out; }
  __device__ float value(std::size_t i) const { return function(out[i], other[i]); }
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

/// elementwise::ordered_sum() of each stretch.
template <class Term>
void ordered_sums(Device& device, const StretchTable& table, const Term& term, double* sums) {
  auto* parts = static_cast<double*>(device.scratch());
  sum_each(device, table.parts, elementwise::kPart, SumOfPart<Term>{term, table.stretches, table.count, parts});
  sum_each(device, table.count, table.most_parts, SumOfStretch{table.stretches, parts, sums});
}
}  // namespace

void fill(const Device& device, float* data, std::size_t count, float value) {
  for_each(device, count, Fill{data, value});
}

void store_noise(const Device& device, const Noise& noise) {
  for_each(device, 1, StoreNoise{noise, device.noise()});
}

void add(const Device& device, tensor::DataType type, void* accumulate, const void* addend, std::size_t count) {
  tensor::with_type(type, [&](auto example) {
    using T = decltype(example);
    fill_each(device, count,
              Update<elementwise::Add, T>{{}, static_cast<T*>(accumulate), static_cast<const T*>(addend)});
  });
}

void swap_axes(const Device& device, tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count, std::int64_t rows, std::int64_t columns) {
  tensor::with_type(from_type, [&](auto given) {
    tensor::with_type(to_type, [&](auto wanted) {
      using From = decltype(given);
      using To = decltype(wanted);
      fill_each(device, count, SwapAxes<From, To>{static_cast<const From*>(from), static_cast<To*>(to), rows, columns});
    });
  });
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
                  const float* gradients, const StretchTable& table, double* sums) {
  ordered_sums(device, table, LambTerm{{step}, parameters, first, second, gradients}, sums);
}

void lamb(const Device& device, const AdamStep& step, float* parameters, const float* first, const float* second,
          std::size_t count) {
  for_each(device, count, Lamb{{step}, parameters, first, second});
}

void sums_of_squares(Device& device, const float* data, const StretchTable& table, double* sums) {
  ordered_sums(device, table, Square{data}, sums);
}

void running_average(const Device& device, float* value, const float* observed, float weight, float scale,
                     std::size_t count) {
  fill_each(device, count, Update<elementwise::RunningAverage>{{weight, scale}, value, observed});
}

cudaError_t probe_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, for_each_kernel<Fill>);
}

}  // namespace distdl::kernels::cuda
