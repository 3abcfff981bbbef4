// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/kernels/cuda/primitives/reduce.hpp>

namespace distdl::kernels::cuda {
namespace {
struct Launch {
  cudaStream_t stream;
  std::size_t count;
  template <class Body>
  void operator()(const Body& body) const {
    static_assert(sizeof body <= 4000, "the arguments of a kernel");
    for_each(stream, count, body);
  }
};
}  // namespace

void reduce(cudaStream_t stream, tensor::DataType type, tensor::Reduction reduction, const ReducePass& pass,
            std::size_t count) {
  reduce_pass(type, reduction, pass, Launch{stream, count});
}

}  // namespace distdl::kernels::cuda
