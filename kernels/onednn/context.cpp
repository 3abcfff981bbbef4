// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <omp.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/kernels/onednn/context.hpp>
#include <distdl/kernels/onednn/planes.hpp>

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

bool includes([[maybe_unused]] dnnl::cpu_isa isa) {
#if defined(__x86_64__)
  // Each instruction set's number has the bits of those that it includes.
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa()), bits = static_cast<unsigned>(isa);
  return (all & bits) == bits;
#else
  return false;
#endif
}

memory::data_type type_of(tensor::DataType type) {
  if (type == tensor::DataType::bfloat16) return memory::data_type::bf16;
  return type == tensor::DataType::float16 ? memory::data_type::f16 : memory::data_type::f32;
}

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

namespace {
const memory::desc& layout_of(const ActivationFormat& format) {
  return *static_cast<const memory::desc*>(format.layout.get());
}
}  // namespace

memory::desc desc_of(const ActivationFormat& format) {
  if (format.layout) return layout_of(format);
  return dense_desc(format.shape, format.type);
}

bool same_layout(const ActivationFormat& one, const ActivationFormat& other) {
  if (one.shape != other.shape || one.type != other.type) return false;
  if (!one.layout || !other.layout) return !one.layout && !other.layout;
  return one.layout == other.layout || layout_of(one) == layout_of(other);
}

ActivationFormat format_of(const tensor::Shape& shape, tensor::DataType type, const memory::desc& desc) {
  if (desc == dense_desc(shape, type)) return dense(shape, type);
  return {shape, desc.get_size(), std::make_shared<memory::desc>(desc), type};
}

ActivationFormat with_type(const ActivationFormat& format, tensor::DataType type) {
  if (!format.layout) return dense(format.shape, type);
  if (format.type == type) return format;
  Planes planes = planes_of(format);
  planes.type = type;
  return format_of(format.shape, planes);
}

namespace {
/// From 3.4 on oneDNN may sum in any order unless it is configured otherwise.
template <class Attributes>
void keep_order(Attributes& attributes) {
  if constexpr (requires { attributes.set_deterministic(true); }) attributes.set_deterministic(true);
}
}  // namespace

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  keep_order(attributes);
  return attributes;
}

}  // namespace distdl::kernels::onednn
