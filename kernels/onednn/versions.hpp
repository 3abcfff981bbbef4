// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <utility>

#include <distdl/kernels/onednn/context.hpp>

/// Code that oneDNN 2.6 and 3.x write differently. This is the only file that asks for the version.
namespace distdl::kernels::onednn {
using Isa = std::pair<dnnl::cpu_isa, const char*>;

#if DNNL_VERSION_MAJOR < 3

/// The descriptor of a primitive; `arguments` are what oneDNN's own constructor takes, in its order.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Context& context, const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes(), context.engine()};
}
/// Returns the descriptor of a gradient of the primitive `forward`.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(const Context& context, const Forward& forward,
                                                     const Arguments&... arguments) {
  return {typename Primitive::desc(arguments...), attributes(), context.engine(), forward};
}

// 2.6 takes one format for source and result.
inline auto describe_eltwise(const Context& context, dnnl::algorithm algorithm, const dnnl::memory::desc& x,
                             float alpha, float beta) {
  return describe<dnnl::eltwise_forward>(context, dnnl::prop_kind::forward_training, algorithm, x, alpha, beta);
}
inline auto describe_gradient(const Context& context, const dnnl::eltwise_forward::primitive_desc& forward,
                              dnnl::algorithm algorithm, const dnnl::memory::desc& x, float alpha, float beta) {
  return describe_gradient<dnnl::eltwise_backward>(context, forward, algorithm, x, x, alpha, beta);
}
inline auto describe_batch_norm(const Context& context, dnnl::prop_kind kind, const dnnl::memory::desc& x,
                                float epsilon, dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(context, kind, x, epsilon, flags);
}
inline auto describe_gradient(const Context& context, const dnnl::batch_normalization_forward::primitive_desc& forward,
                              const dnnl::memory::desc& x, float epsilon, dnnl::normalization_flags flags) {
  return describe_gradient<dnnl::batch_normalization_backward>(context, forward, dnnl::prop_kind::backward, x, x,
                                                               epsilon, flags);
}

/// The argument of a batch norm's gradient that has the shift: 2.6 does not run without it, 3.x not with it.
inline constexpr int kShiftOfGradient = DNNL_ARG_SHIFT;

/// Instruction sets that the other version does not know.
inline constexpr std::array<Isa, 0> kMoreIsas{};

#else

template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const Context& context, const Arguments&... arguments) {
  return {context.engine(), arguments..., attributes()};
}
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(const Context& context, const Forward& forward,
                                                     const Arguments&... arguments) {
  return {context.engine(), arguments..., forward, attributes()};
}

inline auto describe_eltwise(const Context& context, dnnl::algorithm algorithm, const dnnl::memory::desc& x,
                             float alpha, float beta) {
  return describe<dnnl::eltwise_forward>(context, dnnl::prop_kind::forward_training, algorithm, x, x, alpha, beta);
}
inline auto describe_gradient(const Context& context, const dnnl::eltwise_forward::primitive_desc& forward,
                              dnnl::algorithm algorithm, const dnnl::memory::desc& x, float alpha, float beta) {
  return describe_gradient<dnnl::eltwise_backward>(context, forward, algorithm, x, x, x, alpha, beta);
}
inline auto describe_batch_norm(const Context& context, dnnl::prop_kind kind, const dnnl::memory::desc& x,
                                float epsilon, dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(context, kind, x, x, epsilon, flags);
}
inline auto describe_gradient(const Context& context, const dnnl::batch_normalization_forward::primitive_desc& forward,
                              const dnnl::memory::desc& x, float epsilon, dnnl::normalization_flags flags) {
  return describe_gradient<dnnl::batch_normalization_backward>(context, forward, dnnl::prop_kind::backward, x, x, x,
                                                               epsilon, flags);
}

inline constexpr int kShiftOfGradient = DNNL_ARG_BIAS;  // a batch norm has no bias

inline constexpr std::array kMoreIsas{Isa{dnnl::cpu_isa::avx2_vnni_2, "avx2_vnni_2"},
                                      Isa{dnnl::cpu_isa::avx512_core_fp16, "avx512_core_fp16"},
                                      Isa{dnnl::cpu_isa::avx512_core_amx_fp16, "avx512_core_amx_fp16"}};

#endif
}  // namespace distdl::kernels::onednn
