// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/backend.hpp>

// Apart from backend.cpp, because the CUDA plug-in needs these and not the list of all backends.
namespace distdl::kernels {

ActivationFormat dense(const tensor::Shape& shape) {
  return {shape, static_cast<std::size_t>(tensor::element_count(shape)) * sizeof(float), nullptr};
}

void Backend::to_dense(const ActivationFormat& format, const float* from, float* to) {
  copy(to, from, static_cast<std::size_t>(tensor::element_count(format.shape)));
}

void Backend::from_dense(const ActivationFormat& format, const float* from, float* to) {
  copy(to, from, static_cast<std::size_t>(tensor::element_count(format.shape)));
}

bool Backend::same_layout(const ActivationFormat& one, const ActivationFormat& other) const {
  return one.shape == other.shape && !one.layout && !other.layout;
}

}  // namespace distdl::kernels
