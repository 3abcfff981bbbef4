// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/primitives/elementwise.hpp>
#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/kernels/cuda/primitives/swap_axes.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda {
namespace {
struct Fill {
  float* data;
  float value;
  __device__ void operator()(std::size_t i) const { data[i] = value; }
};

struct StoreRngKey {
  RngKey rng_key;
  RngKey* to;
  __device__ void operator()(std::size_t) const { *to = rng_key; }
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
}  // namespace

void fill(const Device& device, float* data, std::size_t count, float value) {
  for_each(device, count, Fill{data, value});
}

void store_rng_key(const Device& device, const RngKey& rng_key) {
  for_each(device, 1, StoreRngKey{rng_key, device.rng_key()});
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

cudaError_t probe_kernels() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, for_each_kernel<Fill>);
}

}  // namespace distdl::kernels::cuda
