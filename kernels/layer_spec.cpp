// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels {
namespace {
using tensor::Role;
using tensor::Shape;

constexpr const char* kImages = "(N, C, H, W)";
constexpr const char* kRows = "(N, C) or (N, T, C)";
constexpr const char* kSequences = "(N, T, C)";

/// Throws unless the input has one of these numbers of dimensions, and elements.
void check_input(const char* kind, const Shape& input, std::initializer_list<std::size_t> ranks, const char* expected) {
  require(std::find(ranks.begin(), ranks.end(), input.size()) != ranks.end(),
          "a {} layer takes {}, not an input of shape {}", kind, expected, tensor::to_string(input));
  for (auto extent : input)
    require(extent > 0, "a {} layer cannot take the empty input {}", kind, tensor::to_string(input));
}

struct Window {
  std::int64_t kernel, stride, padding = 0, dilation = 1;
};

std::int64_t window_count(const char* kind, std::int64_t extent, const Window& window, const Shape& input) {
  const auto [kernel, stride, padding, dilation] = window;
  require(kernel > 0 && stride > 0 && dilation > 0 && padding >= 0 && padding < kernel * dilation,
          "a {} layer has kernel {}, stride {}, padding {}, dilation {}: all but padding must be positive, and 0 <= "
          "padding < kernel * dilation",
          kind, kernel, stride, padding, dilation);
  const std::int64_t width = (kernel - 1) * dilation + 1;
  require(extent + 2 * padding >= width, "a {} layer with kernel {} and padding {} does not fit an input of shape {}",
          kind, kernel, padding, tensor::to_string(input));
  return (extent + 2 * padding - width) / stride + 1;
}

/// (N, channels, H', W')
Shape windows(const char* kind, const Shape& input, std::int64_t channels, const Window& window) {
  check_input(kind, input, {4}, kImages);
  return {input[0], channels, window_count(kind, input[2], window, input), window_count(kind, input[3], window, input)};
}

void require_outputs(const char* kind, std::int64_t out) {
  require(out > 0, "a {} layer has {} outputs, but needs at least one", kind, out);
}

void require_epsilon(const char* kind, float epsilon) {
  require(epsilon > 0, "a {} layer has epsilon {}, which must be positive", kind, epsilon);
}

Shape rows(const char* kind, const Shape& input, float epsilon) {
  require_epsilon(kind, epsilon);
  check_input(kind, input, {2, 3}, kRows);
  return input;
}

struct Output {
  Shape input;
  Shape operator()(const Elementwise auto&) const { return input; }
  Shape operator()(const Linear& spec) const {
    check_input("linear", input, {2, 3, 4, 5}, "(N, in), (N, T, in), (N, C, H, W) or (N, C, D, H, W)");
    require_outputs("linear", spec.out);
    return input.size() == 3 ? Shape{input[0], input[1], spec.out} : Shape{input[0], spec.out};
  }
  Shape operator()(const Conv2d& spec) const {
    check_input("conv2d", input, {4}, kImages);
    require_outputs("conv2d", spec.out);
    require(spec.groups > 0 && input[1] % spec.groups == 0 && spec.out % spec.groups == 0,
            "a conv2d layer has {} groups, which must divide its {} channels and its {} outputs", spec.groups, input[1],
            spec.out);
    return windows("conv2d", input, spec.out, {spec.kernel, spec.stride, spec.padding, spec.dilation});
  }
  Shape operator()(const MaxPool2d& spec) const {
    check_input("max_pool2d", input, {4}, kImages);
    require(spec.padding <= spec.kernel / 2,
            "a max_pool2d layer has padding {}, which must be at most half of its kernel {}", spec.padding,
            spec.kernel);
    return windows("max_pool2d", input, input[1], {spec.kernel, spec.stride, spec.padding});
  }
  Shape operator()(const AveragePool2d& spec) const {
    check_input("average_pool2d", input, {4}, kImages);
    return windows("average_pool2d", input, input[1], {spec.kernel, spec.stride});
  }
  Shape operator()(const GlobalAveragePool&) const {
    check_input("global_average_pool", input, {4}, kImages);
    return {input[0], input[1]};
  }
  Shape operator()(const GatedSilu&) const {
    check_input("gated_silu", input, {2, 3}, kRows);
    require(input.back() % 2 == 0, "a gated_silu layer halves the last extent of its input, and {} cannot be halved",
            tensor::to_string(input));
    Shape half = input;
    half.back() /= 2;
    return half;
  }
  Shape operator()(const BatchNorm& spec) const {
    require_epsilon("batch_norm", spec.epsilon);
    check_input("batch_norm", input, {2, 4}, "(N, C) or (N, C, H, W)");
    return input;
  }
  Shape operator()(const LayerNorm& spec) const { return rows("layer_norm", input, spec.epsilon); }
  Shape operator()(const RmsNorm& spec) const { return rows("rms_norm", input, spec.epsilon); }
  Shape operator()(const Dropout& spec) const {
    require(
        spec.probability >= 0 && spec.probability < 1 && spec.stream < 65536,
        "a dropout layer has probability {} and stream {}, but 0 <= probability < 1 and stream < 65536 are required",
        spec.probability, spec.stream);
    return input;
  }
  Shape operator()(const Embedding& spec) const {
    check_input("embedding", input, {2}, "(N, T) numbers");
    require_outputs("embedding", spec.width);
    require_outputs("embedding", spec.entries);
    require(spec.all == 0 || (spec.first >= 0 && spec.first + spec.entries <= spec.all),
            "an embedding layer has the rows {} to {} of a table, which has only {}", spec.first,
            spec.first + spec.entries - 1, spec.all);
    return {input[0], input[1], spec.width};
  }
  Shape operator()(const PositionEmbedding& spec) const {
    const bool is_slice = spec.rows.places > 0;
    check_input("position_embedding", input, {is_slice ? std::size_t{2} : std::size_t{3}},
                is_slice ? "(rows, C)" : kSequences);
    const std::int64_t places = is_slice ? spec.rows.places : input[1];
    require(spec.first >= 0 && spec.first + places <= spec.places,
            "a position_embedding layer of {} positions cannot take {} of them: {}", spec.places, spec.first + places,
            tensor::to_string(input));
    return input;
  }
  Shape operator()(const ClassToken&) const {
    check_input("class_token", input, {3}, kSequences);
    return {input[0], input[1] + 1, input[2]};
  }
  Shape operator()(const PixelsToSequence&) const {
    check_input("pixels_to_sequence", input, {4}, kImages);
    return {input[0], input[2] * input[3], input[1]};
  }
  Shape operator()(const SelectPlace& spec) const {
    check_input("select_place", input, {3}, kSequences);
    require(spec.place >= 0 && spec.place < input[1],
            "a select_place layer takes position {} of {}, which does not exist", spec.place, tensor::to_string(input));
    return {input[0], input[2]};
  }
  Shape operator()(const Attention& spec) const {
    const bool joined = spec.queries > 0;
    check_input("attention", input, {joined ? std::size_t{2} : std::size_t{3}},
                joined ? "(N, values)" : "(N, T, (heads + 2 kv_heads) * D)");
    const std::int64_t kv = kv_heads_of(spec);
    require(spec.heads > 0 && kv > 0 && spec.heads % kv == 0,
            "an attention layer has {} heads and {} for keys and values, which must divide them", spec.heads, kv);
    const AttentionLayout layout = layout_of(spec, input);
    const std::int64_t kv_row = 2 * kv * layout.width;
    require(joined ? layout.keys + layout.places * kv_row == layout.sample : layout.keys + kv_row == input[2],
            "an attention layer of {} heads and 2 * {} for keys and values must divide the last extent of {}",
            spec.heads, kv, tensor::to_string(input));
    require(spec.rotary_base == 0 || (spec.rotary_base > 0 && layout.width % 2 == 0),
            "an attention layer rotates pairs of values, but its heads are {} wide and its rotary base is {}",
            layout.width, spec.rotary_base);
    return {input[0], layout.queries, spec.heads * layout.width};
  }
  Shape operator()(const JoinContext& spec) const {
    check_input("join_context", input, {3}, "(N, T, (heads + 2 kv_heads) * D)");
    const std::int64_t heads = spec.heads + 2 * spec.kv_heads;
    require(spec.heads > 0 && spec.kv_heads > 0 && spec.before >= 0 && input[2] % heads == 0,
            "a join_context layer of {} heads and 2 * {} for keys and values must divide the last extent of {}",
            spec.heads, spec.kv_heads, tensor::to_string(input));
    const std::int64_t width = input[2] / heads;
    return {input[0], (input[1] * spec.heads + (spec.before + input[1]) * 2 * spec.kv_heads) * width};
  }
};

struct Parameters {
  using All = std::vector<ParameterSpec>;
  Shape input;
  All operator()(const Linear& spec) const {
    const std::int64_t in = input.size() == 3 ? input[2] : tensor::element_count(input) / input[0];
    All all{{"weight", {spec.out, in}, Role::parameter, Init::fan_in_uniform, in}};
    if (spec.bias) all.push_back({"bias", {spec.out}, Role::parameter, Init::fan_in_uniform, in});
    return all;
  }
  All operator()(const Conv2d& spec) const {
    const std::int64_t channels = input[1] / spec.groups, fan_in = channels * spec.kernel * spec.kernel;
    All all{{"weight", {spec.out, channels, spec.kernel, spec.kernel}, Role::parameter, Init::fan_in_uniform, fan_in}};
    if (spec.bias) all.push_back({"bias", {spec.out}, Role::parameter, Init::fan_in_uniform, fan_in});
    return all;
  }
  All operator()(const BatchNorm&) const {
    const Shape channels{input[1]};
    return {{"weight", channels, Role::parameter, Init::ones},
            {"bias", channels, Role::parameter, Init::zeros},
            {"running_mean", channels, Role::statistic, Init::zeros},
            {"running_var", channels, Role::statistic, Init::ones}};
  }
  All operator()(const LayerNorm&) const {
    const Shape width{input.back()};
    return {{"weight", width, Role::parameter, Init::ones}, {"bias", width, Role::parameter, Init::zeros}};
  }
  All operator()(const RmsNorm&) const { return {{"weight", {input.back()}, Role::parameter, Init::ones}}; }
  All operator()(const Embedding& spec) const {
    return {{"weight", {spec.entries, spec.width}, Role::parameter, Init::normal}};
  }
  All operator()(const PositionEmbedding& spec) const {
    return {{"weight", {spec.places, input.back()}, Role::parameter, Init::normal}};
  }
  All operator()(const ClassToken&) const { return {{"weight", {input[2]}, Role::parameter, Init::zeros}}; }
  template <class Other>
  All operator()(const Other&) const {
    return {};
  }
};

std::int64_t rows_of(const CrossEntropy& spec, const Shape& logits) {
  require(spec.smoothing >= 0 && spec.smoothing < 1, "label smoothing is {}, but must be in [0, 1)", spec.smoothing);
  require((logits.size() == 2 || logits.size() == 3) && tensor::element_count(logits) > 0,
          "cross-entropy takes logits (N, classes) or (N, T, classes), not {}", tensor::to_string(logits));
  return tensor::element_count(logits) / logits.back();
}
}  // namespace

std::int64_t loss_terms(const LossSpec& spec, const Shape& predictions) {
  if (const auto* entropy = std::get_if<CrossEntropy>(&spec)) return rows_of(*entropy, predictions);
  require(!predictions.empty() && tensor::element_count(predictions) > 0,
          "a mean squared error takes predictions (N, ..), not {}", tensor::to_string(predictions));
  return predictions[0];
}

std::int64_t target_count(const LossSpec& spec, const Shape& predictions) {
  const std::int64_t terms = loss_terms(spec, predictions);
  const auto* entropy = std::get_if<CrossEntropy>(&spec);
  if (entropy == nullptr) return tensor::element_count(predictions);
  constexpr std::int64_t kMixedRows = 3;
  return entropy->is_mixed ? kMixedRows * terms : terms;
}

std::int64_t kv_heads_of(const Attention& spec) {
  return spec.kv_heads == 0 ? spec.heads : spec.kv_heads;
}

AttentionLayout layout_of(const Attention& spec, const Shape& input) {
  const std::int64_t kv = kv_heads_of(spec);
  if (spec.queries == 0) {
    const std::int64_t width = input[2] / (spec.heads + 2 * kv);
    return {input[1], input[1], width, input[1] * input[2], input[2], spec.heads * width, input[2]};
  }
  const std::int64_t places = spec.before + spec.queries;
  const std::int64_t width = input[1] / (spec.queries * spec.heads + places * 2 * kv);
  const std::int64_t query_row = spec.heads * width;
  return {spec.queries, places, width, input[1], query_row, spec.queries * query_row, 2 * kv * width};
}

std::string kind_of(const LayerSpec& spec) {
  return std::visit([](const auto& layer) { return std::string(layer.kKind); }, spec);
}

Shape output_shape(const LayerSpec& spec, const Shape& input) {
  return std::visit(Output{input}, spec);
}

std::vector<ParameterSpec> parameters_of(const LayerSpec& spec, const Shape& input) {
  output_shape(spec, input);  // throws if they do not fit
  return std::visit(Parameters{input}, spec);
}

}  // namespace distdl::kernels
