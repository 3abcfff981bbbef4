// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/host_device.hpp>
#include <distdl/tensor/accelerator.hpp>
#include <distdl/tensor/element_maths.hpp>

/// A reduction in the order of its operands (see tensor::ReduceSource), executed by kernels with one element per
/// thread.
namespace distdl::kernels::cuda {

struct Gpu {};
using Maths = tensor::ElementMaths<Gpu>;

/// The arguments of one kernel. They are passed by value, so they must fit into 4 KiB.
struct ReducePass {
  static constexpr int kSources = 128;
  static constexpr int kPartials = 64;

  const void* sources[kSources];
  std::uint8_t reductions[kSources];
  void* results[kPartials];
  int source_count = 0;
  int result_count = 0;
  /// If true, partial results are written, oldest first; else the only result is written to all targets.
  bool partial = false;
  double scale = 1;
};

/// Element i of a pass.
template <class Type, class Operation>
struct ReduceElement {
  using Value = typename Type::Value;
  ReducePass pass;

  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    Value stack[ReducePass::kPartials];
    int depth = 0;
    for (int s = 0; s < pass.source_count; ++s) {
      stack[depth++] = static_cast<const Value*>(pass.sources[s])[i];
      for (int m = 0; m < pass.reductions[s]; ++m) {
        --depth;
        stack[depth - 1] = Operation::of(stack[depth - 1], stack[depth], 1);
      }
    }
    if (!pass.partial) stack[0] = scaled(stack[0], pass.scale);
    for (int r = 0; r < pass.result_count; ++r) static_cast<Value*>(pass.results[r])[i] = stack[pass.partial ? r : 0];
  }

  DISTDL_HOST_DEVICE static Value scaled(Value value, double scale) {
    if constexpr (requires { Type::scale(value, scale); })
      return scale == 1 ? value : Type::scale(value, scale);
    else
      return value;
  }
};

/// The most frequent case, in registers: two operands, and one or two results.
template <class Type, class Operation>
struct ReduceTwo {
  using Value = typename Type::Value;
  const Value* left;
  const Value* right;
  Value* first;
  Value* second;  ///< may be null
  double scale;

  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const Value value = ReduceElement<Type, Operation>::scaled(Operation::of(left[i], right[i], 1), scale);
    first[i] = value;
    if (second) second[i] = value;
  }
};

template <class Type, class Operation, class Run>
void reduce_pass(const ReducePass& pass, const Run& run) {
  using Value = typename Type::Value;
  if (pass.source_count != 2 || pass.reductions[1] != 1 || pass.result_count > 2)
    return run(ReduceElement<Type, Operation>{pass});
  run(ReduceTwo<Type, Operation>{static_cast<const Value*>(pass.sources[0]), static_cast<const Value*>(pass.sources[1]),
                                 static_cast<Value*>(pass.results[0]),
                                 static_cast<Value*>(pass.result_count > 1 ? pass.results[1] : nullptr), pass.scale});
}

template <class Type, class Run>
void reduce_pass(tensor::Reduction reduction, const ReducePass& pass, const Run& run) {
  switch (reduction) {
    case tensor::Reduction::maximum:
      return reduce_pass<Type, Maths::Maximum<Type>>(pass, run);
    case tensor::Reduction::minimum:
      return reduce_pass<Type, Maths::Minimum<Type>>(pass, run);
    default:
      return reduce_pass<Type, Maths::Sum<Type>>(pass, run);
  }
}

/// Calls run(body), where body(i) handles element i. For types that are reduced (tensor::is_reducible).
template <class Run>
void reduce_pass(tensor::DataType type, tensor::Reduction reduction, const ReducePass& pass, const Run& run) {
  switch (type) {
    case tensor::DataType::float32:
      return reduce_pass<Maths::Float>(reduction, pass, run);
    case tensor::DataType::float64:
      return reduce_pass<Maths::Double>(reduction, pass, run);
    case tensor::DataType::float16:
      return reduce_pass<Maths::Float16>(reduction, pass, run);
    case tensor::DataType::bfloat16:
      return reduce_pass<Maths::Bfloat16>(reduction, pass, run);
    case tensor::DataType::int32:
      return reduce_pass<Maths::Integer<std::int32_t, std::uint32_t>>(reduction, pass, run);
    case tensor::DataType::int64:
      return reduce_pass<Maths::Integer<std::int64_t, std::uint64_t>>(reduction, pass, run);
    default:
      break;  // cannot be summed
  }
}

}  // namespace distdl::kernels::cuda
