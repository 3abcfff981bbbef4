// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include <distdl/kernels/layer_flops.hpp>

namespace distdl::kernels {
namespace {
double count(const tensor::Shape& shape) {
  return static_cast<double>(tensor::element_count(shape));
}

/// Each pass of one product takes as much as the others.
LayerFlops of_product(double forward) {
  return {forward, forward, forward};
}

template <class Spec>
LayerFlops flops(const Spec&, const tensor::Shape&) {
  return {};
}

LayerFlops flops(const Linear& spec, const tensor::Shape& input) {
  return of_product(2 * count(input) * static_cast<double>(spec.out));
}

LayerFlops flops(const Conv2d& spec, const tensor::Shape& input) {
  const std::int64_t values = input[1] / spec.groups * spec.kernel * spec.kernel;  // for each output
  return of_product(2 * count(output_shape(spec, input)) * static_cast<double>(values));
}

LayerFlops flops(const Attention& spec, const tensor::Shape& input) {
  const auto layout = layout_of(spec, input);
  const double forward = 4 * count({input[0], spec.heads, layout.queries, layout.places, layout.width});
  return {forward, 2 * forward, 0};
}
}  // namespace

LayerFlops flops_of(const LayerSpec& spec, const tensor::Shape& input) {
  return std::visit([&](const auto& own) { return flops(own, input); }, spec);
}

}  // namespace distdl::kernels
