// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>

// Apart from backend.cpp, because the CUDA plug-in needs these and not the list of all backends.
namespace distdl::kernels {

tensor::DataType activation_type(const Options& options) {
  if (options.precision == Precision::bf16) return tensor::DataType::bfloat16;
  if (options.precision == Precision::fp16) return tensor::DataType::float16;
  return tensor::DataType::float32;
}

ActivationFormat dense(const tensor::Shape& shape, tensor::DataType type) {
  return {shape, static_cast<std::size_t>(tensor::element_count(shape)) * tensor::size_of(type), nullptr, type};
}

void Backend::sum(const ActivationFormat& format, std::span<void* const> addends) {
  for (std::size_t step = 1; step < addends.size(); step *= 2)
    for (std::size_t i = 0; i + step < addends.size(); i += 2 * step) add(format, addends[i], addends[i + step]);
}

std::unique_ptr<SlicedLoss> Backend::sliced_loss(const CrossEntropy& /*spec*/, const ActivationFormat& /*logits*/,
                                                 const ClassSlice& /*slice*/) {
  throw ConfigError(fmt::format(
      "the backend \"{}\" cannot divide the vocabulary of a model: use a backend of the CPU, or no tensor shards",
      name()));
}

void Backend::to_dense(const ActivationFormat& format, const void* from, float* to) {
  convert(format.type, from, tensor::DataType::float32, to, format.elements());
}

void Backend::from_dense(const ActivationFormat& format, const float* from, void* to) {
  convert(tensor::DataType::float32, from, format.type, to, format.elements());
}

bool Backend::same_layout(const ActivationFormat& one, const ActivationFormat& other) const {
  return one.shape == other.shape && !one.layout && !other.layout && one.type == other.type;
}

}  // namespace distdl::kernels
