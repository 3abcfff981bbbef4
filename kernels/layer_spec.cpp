// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels {
namespace {
using tensor::Role;
using tensor::Shape;

Shape checked(const char* kind, const Shape& input, std::size_t rank_a, std::size_t rank_b, const char* expected) {
  require(input.size() == rank_a || input.size() == rank_b, "a {} layer takes {}, not an input of shape {}", kind,
          expected, tensor::to_string(input));
  for (auto extent : input)
    require(extent > 0, "a {} layer cannot take the empty input {}", kind, tensor::to_string(input));
  return input;
}

std::int64_t window_count(const char* kind, std::int64_t extent, std::int64_t kernel, std::int64_t stride,
                          std::int64_t padding, const Shape& input) {
  require(
      kernel > 0 && stride > 0 && padding >= 0 && padding < kernel,
      "a {} layer has kernel {}, stride {}, padding {}: kernel and stride must be positive and 0 <= padding < kernel",
      kind, kernel, stride, padding);
  require(extent + 2 * padding >= kernel, "a {} layer with kernel {} and padding {} does not fit an input of shape {}",
          kind, kernel, padding, tensor::to_string(input));
  return (extent + 2 * padding - kernel) / stride + 1;
}

void require_outputs(const char* kind, std::int64_t out) {
  require(out > 0, "a {} layer has {} outputs: it needs at least one", kind, out);
}

struct Kind {
  std::string operator()(const Linear&) const { return "linear"; }
  std::string operator()(const Conv2d&) const { return "conv2d"; }
  std::string operator()(const MaxPool2d&) const { return "max_pool2d"; }
  std::string operator()(const Relu&) const { return "relu"; }
  std::string operator()(const BatchNorm&) const { return "batch_norm"; }
};

struct Output {
  Shape input;
  Shape operator()(const Linear& spec) const {
    checked("linear", input, 2, 4, "(N, in) or (N, C, H, W)");
    require_outputs("linear", spec.out);
    return {input[0], spec.out};
  }
  Shape operator()(const Conv2d& spec) const {
    checked("conv2d", input, 4, 4, "(N, C, H, W)");
    require_outputs("conv2d", spec.out);
    return {input[0], spec.out, window_count("conv2d", input[2], spec.kernel, spec.stride, spec.padding, input),
            window_count("conv2d", input[3], spec.kernel, spec.stride, spec.padding, input)};
  }
  Shape operator()(const MaxPool2d& spec) const {
    checked("max_pool2d", input, 4, 4, "(N, C, H, W)");
    return {input[0], input[1], window_count("max_pool2d", input[2], spec.kernel, spec.stride, 0, input),
            window_count("max_pool2d", input[3], spec.kernel, spec.stride, 0, input)};
  }
  Shape operator()(const Relu&) const { return input; }
  Shape operator()(const BatchNorm& spec) const {
    require(spec.epsilon > 0, "a batch_norm layer has epsilon {}: it must be positive", spec.epsilon);
    return checked("batch_norm", input, 2, 4, "(N, C) or (N, C, H, W)");
  }
};

struct Parameters {
  Shape input;
  std::vector<ParameterSpec> operator()(const Linear& spec) const {
    std::int64_t in = tensor::element_count(input) / input[0];
    return {{"weight", {spec.out, in}, Role::parameter, Init::fan_in_uniform, in},
            {"bias", {spec.out}, Role::parameter, Init::fan_in_uniform, in}};
  }
  std::vector<ParameterSpec> operator()(const Conv2d& spec) const {
    std::int64_t fan_in = input[1] * spec.kernel * spec.kernel;
    std::vector<ParameterSpec> all{
        {"weight", {spec.out, input[1], spec.kernel, spec.kernel}, Role::parameter, Init::fan_in_uniform, fan_in}};
    if (spec.bias) all.push_back({"bias", {spec.out}, Role::parameter, Init::fan_in_uniform, fan_in});
    return all;
  }
  std::vector<ParameterSpec> operator()(const MaxPool2d&) const { return {}; }
  std::vector<ParameterSpec> operator()(const Relu&) const { return {}; }
  std::vector<ParameterSpec> operator()(const BatchNorm&) const {
    Shape channels{input[1]};
    return {{"weight", channels, Role::parameter, Init::ones},
            {"bias", channels, Role::parameter, Init::zeros},
            {"running_mean", channels, Role::statistic, Init::zeros},
            {"running_var", channels, Role::statistic, Init::ones}};
  }
};
}  // namespace

std::string kind_of(const LayerSpec& spec) {
  return std::visit(Kind{}, spec);
}

Shape output_shape(const LayerSpec& spec, const Shape& input) {
  return std::visit(Output{input}, spec);
}

std::vector<ParameterSpec> parameters_of(const LayerSpec& spec, const Shape& input) {
  output_shape(spec, input);  // throws if they do not fit
  return std::visit(Parameters{input}, spec);
}

}  // namespace distdl::kernels
