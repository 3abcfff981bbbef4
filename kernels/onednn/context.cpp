// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <omp.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {
using dnnl::memory;

Context::Context(int threads) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), threads_(threads) {
  require_threads(threads - 1);  // OpenMP's library would end the program
  enter();
}

void Context::enter() const {
  if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
}

void Context::reserve_scratchpad(std::size_t bytes) {
  if (bytes > scratchpad_.bytes()) scratchpad_ = tensor::allocate_host(bytes);
}

namespace {
memory::data_type type_of(tensor::DataType type) {
  if (type == tensor::DataType::bfloat16) return memory::data_type::bf16;
  return type == tensor::DataType::float16 ? memory::data_type::f16 : memory::data_type::f32;
}
tensor::DataType type_of(const memory::desc& desc) {
  if (desc.data_type() == memory::data_type::bf16) return tensor::DataType::bfloat16;
  return desc.data_type() == memory::data_type::f16 ? tensor::DataType::float16 : tensor::DataType::float32;
}
}  // namespace

memory::desc dense_desc(const tensor::Shape& shape, tensor::DataType type) {
  using tag = memory::format_tag;
  constexpr std::array kTags{tag::a, tag::ab, tag::abc, tag::abcd, tag::abcde};
  require(!shape.empty() && shape.size() <= kTags.size(), "the onednn backend takes 1 to 5 dimensions, not {}",
          tensor::to_string(shape));
  return {shape, type_of(type), kTags[shape.size() - 1]};
}

memory::desc any_desc(const tensor::Shape& shape, tensor::DataType type) {
  return {shape, type_of(type), memory::format_tag::any};
}

memory::desc desc_of(const ActivationFormat& format) {
  if (format.layout) return *static_cast<const memory::desc*>(format.layout.get());
  return dense_desc(format.shape, format.type);
}

ActivationFormat format_of(const tensor::Shape& shape, const memory::desc& desc) {
  const tensor::DataType type = type_of(desc);
  if (desc == dense_desc(shape, type)) return dense(shape, type);
  return {shape, desc.get_size(), std::make_shared<memory::desc>(desc), type};
}

ActivationFormat with_type(const ActivationFormat& format, tensor::DataType type) {
  memory::desc desc = desc_of(format);
  desc.data.data_type = memory::convert_to_c(type_of(type));
  return format_of(format.shape, desc);
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace distdl::kernels::onednn
