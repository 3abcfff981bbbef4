// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <span>
#include <tuple>
#include <utility>

#include <distdl/app/model/onnx_model.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using checkpoint::OnnxGraph;
using tensor::DataType;
using OnnxAttributes = std::vector<std::pair<std::string, checkpoint::OnnxAttribute>>;
using OnnxNames = std::vector<std::string>;
using OnnxExtents = std::vector<std::int64_t>;

constexpr const char* kBatch = "batch";
constexpr const char* kSequence = "sequence";

/// Adds the nodes of a model's layers, one after the other. There is an add() for each kind of layer; it returns the
/// name of the output.
class GraphBuilder {
 public:
  GraphBuilder(const model::Description& model, const model::ModelTensors& tensors,
               std::vector<checkpoint::ExportedTensor> weights, std::int64_t longest)
      : model_(model), tensors_(tensors), weights_(std::move(weights)), longest_(longest), graph_{.name = model.name} {}

  OnnxGraph build() {
    const auto wiring = model::wire(model_, 1);
    add_input();
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const auto& wired = wiring.layers[i];
      number_ = i;
      input_ = wired.input;
      output_ = wired.output;
      std::string made =
          std::visit([&](const auto& spec) { return add(spec, output_of(wired.from)); }, model_.layers[i].spec);
      if (wired.plus != model::Wiring::kNothing) made = node("Add", {made, output_of(wired.plus)});
      outputs_.push_back(std::move(made));
    }
    add_output();
    add_weights();
    return std::move(graph_);
  }

 private:
  const model::NamedLayer& layer() const { return model_.layers[number_]; }
  const std::string& output_of(int layer) const {
    return layer == model::Wiring::kSample ? graph_.inputs.front().name : outputs_[static_cast<std::size_t>(layer)];
  }

  /// A sample of numbers of tokens goes to an embedding.
  void add_input() {
    const bool is_tokens = std::ranges::any_of(
        model_.layers, [](const auto& layer) { return std::holds_alternative<kernels::Embedding>(layer.spec); });
    checkpoint::OnnxValue input{is_tokens ? "input_ids" : "input", is_tokens ? DataType::int64 : DataType::float32};
    input.shape.emplace_back(kBatch);
    for (const std::int64_t extent : model_.sample)
      is_tokens ? input.shape.emplace_back(kSequence) : input.shape.emplace_back(extent);
    graph_.inputs.push_back(std::move(input));
  }

  void add_output() {
    const std::string name = std::holds_alternative<kernels::CrossEntropy>(model_.loss) ? "logits" : "output";
    checkpoint::OnnxValue output{name};
    output.shape.emplace_back(kBatch);
    for (std::size_t i = 1; i < output_.size(); ++i) {
      const bool is_sequence = i == 1 && output_.size() > 2 && graph_.inputs.front().dtype == DataType::int64;
      is_sequence ? output.shape.emplace_back(kSequence) : output.shape.emplace_back(output_[i]);
    }
    graph_.outputs.push_back(std::move(output));
    node_of("Identity", {outputs_.back()}, {name}, {});
  }

  /// Each shared tensor is added once.
  void add_weights() {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      if (!tensors_.tensors[i].shared) graph_.weights.push_back(weights_[i]);
  }

  void node_of(const char* kind, OnnxNames inputs, OnnxNames outputs, OnnxAttributes attributes) {
    graph_.nodes.push_back({kind, outputs.front(), std::move(inputs), std::move(outputs), std::move(attributes)});
  }
  OnnxNames nodes(const char* kind, OnnxNames inputs, std::size_t outputs, OnnxAttributes attributes = {}) {
    OnnxNames names;
    for (std::size_t i = 0; i < outputs; ++i)
      names.push_back(fmt::format("{}/{}_{}", layer().name, kind, used_[layer().name + "/" + kind]++));
    node_of(kind, std::move(inputs), names, std::move(attributes));
    return names;
  }
  std::string node(const char* kind, OnnxNames inputs, OnnxAttributes attributes = {}) {
    return nodes(kind, std::move(inputs), 1, std::move(attributes)).front();
  }

  /// A tensor of this layer, as it is in the file: of shared ones that of their owner.
  std::string weight(std::string_view name) const {
    const auto& all = tensors_.tensors;
    const auto own =
        std::ranges::find_if(all, [&](const auto& each) { return each.layer == number_ && each.spec.name == name; });
    const auto owner =
        std::ranges::find_if(all, [&](const auto& each) { return !each.shared && each.view.name == own->view.name; });
    return weights_[static_cast<std::size_t>(owner - all.begin())].name;
  }

  template <class Value>
  std::string constant(DataType dtype, const OnnxExtents& shape, std::span<const Value> values) {
    std::string bytes(values.size_bytes(), '\0');
    std::memcpy(bytes.data(), values.data(), values.size_bytes());
    const auto known = std::ranges::find_if(graph_.constants, [&](const auto& each) {
      return each.entry.dtype == dtype && each.entry.shape == shape && each.bytes == bytes;
    });
    if (known != graph_.constants.end()) return known->entry.name;
    graph_.constants.push_back({{fmt::format("constant_{}", graph_.constants.size()), dtype, shape}, std::move(bytes)});
    return graph_.constants.back().entry.name;
  }
  std::string numbers(const OnnxExtents& values) {
    return constant<std::int64_t>(DataType::int64, {static_cast<std::int64_t>(values.size())}, values);
  }
  std::string number(std::int64_t value) { return constant<std::int64_t>(DataType::int64, {}, std::span(&value, 1)); }
  std::string real(double value) {
    const auto single = static_cast<float>(value);
    return constant<float>(DataType::float32, {}, std::span(&single, 1));
  }

  std::string reshaped(const std::string& x, const OnnxExtents& shape) { return node("Reshape", {x, numbers(shape)}); }
  std::string transposed(const std::string& x, const OnnxExtents& order) {
    return node("Transpose", {x}, {{"perm", order}});
  }
  /// Divides the last dimension into parts of these extents.
  OnnxNames divided(const std::string& x, const OnnxExtents& parts) {
    return nodes("Split", {x, numbers(parts)}, parts.size(), {{"axis", std::int64_t{-1}}});
  }
  /// Returns the name of a list of one number.
  std::string extent_of(const std::string& x, std::int64_t dimension) {
    return node("Shape", {x}, {{"start", dimension}, {"end", dimension + 1}});
  }
  std::string silu(const std::string& x) { return node("Mul", {x, node("Sigmoid", {x})}); }

  /// A sequence is multiplied row by row; any other sample is one row.
  std::string add(const kernels::Linear& spec, std::string x) {
    if (output_.size() == 3) {
      const std::string y = node("MatMul", {x, transposed(weight("weight"), {1, 0})});
      return spec.bias ? node("Add", {y, weight("bias")}) : y;
    }
    if (input_.size() > 2) x = node("Flatten", {x}, {{"axis", std::int64_t{1}}});
    OnnxNames inputs{x, weight("weight")};
    if (spec.bias) inputs.push_back(weight("bias"));
    return node("Gemm", std::move(inputs), {{"transB", std::int64_t{1}}});
  }

  std::string add(const kernels::Conv2d& spec, const std::string& x) {
    OnnxNames inputs{x, weight("weight")};
    if (spec.bias) inputs.push_back(weight("bias"));
    return node("Conv", std::move(inputs),
                {{"kernel_shape", OnnxExtents(2, spec.kernel)},
                 {"strides", OnnxExtents(2, spec.stride)},
                 {"pads", OnnxExtents(4, spec.padding)},
                 {"dilations", OnnxExtents(2, spec.dilation)},
                 {"group", spec.groups}});
  }

  std::string add(const kernels::MaxPool2d& spec, const std::string& x) {
    return node("MaxPool", {x},
                {{"kernel_shape", OnnxExtents(2, spec.kernel)},
                 {"strides", OnnxExtents(2, spec.stride)},
                 {"pads", OnnxExtents(4, spec.padding)}});
  }

  std::string add(const kernels::AveragePool2d& spec, const std::string& x) {
    return node("AveragePool", {x},
                {{"kernel_shape", OnnxExtents(2, spec.kernel)}, {"strides", OnnxExtents(2, spec.stride)}});
  }

  std::string add(const kernels::GlobalAveragePool&, const std::string& x) {
    return node("Flatten", {node("GlobalAveragePool", {x})}, {{"axis", std::int64_t{1}}});
  }

  std::string add(const kernels::Relu&, const std::string& x) { return node("Relu", {x}); }

  std::string add(const kernels::Gelu& spec, const std::string& x) {
    std::string bounded;
    if (spec.tanh) {
      const std::string cube = node("Mul", {node("Mul", {node("Mul", {x, x}), x}), real(0.044715)});
      bounded = node("Tanh", {node("Mul", {node("Add", {x, cube}), real(std::sqrt(2 * std::numbers::inv_pi))})});
    } else {
      bounded = node("Erf", {node("Div", {x, real(std::numbers::sqrt2)})});
    }
    return node("Mul", {node("Mul", {x, real(0.5)}), node("Add", {bounded, real(1)})});
  }

  std::string add(const kernels::Silu&, const std::string& x) { return silu(x); }

  std::string add(const kernels::GatedSilu&, const std::string& x) {
    const auto halves = divided(x, OnnxExtents(2, output_.back()));
    return node("Mul", {silu(halves[0]), halves[1]});
  }

  std::string add(const kernels::BatchNorm& spec, const std::string& x) {
    return node("BatchNormalization",
                {x, weight("weight"), weight("bias"), weight("running_mean"), weight("running_var")},
                {{"epsilon", spec.epsilon}});
  }

  std::string add(const kernels::LayerNorm& spec, const std::string& x) {
    return node("LayerNormalization", {x, weight("weight"), weight("bias")},
                {{"axis", std::int64_t{-1}}, {"epsilon", spec.epsilon}});
  }

  std::string add(const kernels::RmsNorm& spec, const std::string& x) {
    const std::string square =
        node("ReduceMean", {node("Mul", {x, x})}, {{"axes", OnnxExtents{-1}}, {"keepdims", std::int64_t{1}}});
    const std::string root = node("Sqrt", {node("Add", {square, real(spec.epsilon)})});
    return node("Mul", {node("Div", {x, root}), weight("weight")});
  }

  static std::string add(const kernels::Dropout&, const std::string& x) { return x; }

  std::string add(const kernels::Embedding&, const std::string& x) { return node("Gather", {weight("weight"), x}); }

  std::string add(const kernels::PositionEmbedding&, const std::string& x) {
    return node("Add", {x, node("Slice", {weight("weight"), numbers({0}), extent_of(x, 1), numbers({-2})})});
  }

  std::string add(const kernels::ClassToken&, const std::string& x) {
    const std::string shape =
        node("Concat", {extent_of(x, 0), numbers({1, input_.back()})}, {{"axis", std::int64_t{0}}});
    return node("Concat", {node("Expand", {weight("weight"), shape}), x}, {{"axis", std::int64_t{1}}});
  }

  std::string add(const kernels::PixelsToSequence&, const std::string& x) {
    return transposed(reshaped(x, {0, 0, -1}), {0, 2, 1});
  }

  std::string add(const kernels::SelectPlace& spec, const std::string& x) {
    return node("Gather", {x, number(spec.place)}, {{"axis", std::int64_t{1}}});
  }

  /// Heads that share a key lie beside each other: (N, T, key heads, heads of each, width of a head).
  std::string add(const kernels::Attention& spec, const std::string& x) {
    const std::int64_t groups = kernels::kv_heads_of(spec), shared = spec.heads / groups;
    const std::int64_t width = input_.back() / (spec.heads + 2 * groups);
    const auto parts = divided(x, {spec.heads * width, groups * width, groups * width});
    std::string queries = reshaped(parts[0], {0, 0, groups, shared, width});
    std::string keys = reshaped(parts[1], {0, 0, groups, 1, width});
    const std::string values = reshaped(parts[2], {0, 0, groups, 1, width});
    if (spec.rotary_base > 0) {
      const auto angles = rotary_angles(spec.rotary_base, width, x);
      queries = rotated(queries, width, angles);
      keys = rotated(keys, width, angles);
    }
    queries = node("Mul", {queries, real(1 / std::sqrt(static_cast<double>(width)))});
    std::string scores = node("MatMul", {transposed(queries, {0, 2, 3, 1, 4}), transposed(keys, {0, 2, 3, 4, 1})});
    if (spec.causal) scores = node("Add", {scores, causal_mask(x)});
    const std::string seen = node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const std::string sums = node("MatMul", {seen, transposed(values, {0, 2, 3, 1, 4})});
    return reshaped(transposed(sums, {0, 3, 1, 2, 4}), {0, 0, spec.heads * width});
  }

  std::string add(const kernels::JoinContext&, const std::string&) {
    throw UsageError(fmt::format("layer \"{}\" of model \"{}\" is one of \"{}\", which ONNX does not have",
                                 layer().name, model_.name, kernels::kind_of(layer().spec)));
  }

  /// The mask (T, T) for the sequences `x` has minus infinity where a place does not see another. Layers of sequences
  /// of one length share it.
  std::string causal_mask(const std::string& x) {
    std::string& mask = masks_[input_[1]];
    if (!mask.empty()) return mask;
    const std::string places = extent_of(x, 1);
    const std::string square = node("Concat", {places, places}, {{"axis", std::int64_t{0}}});
    const std::string all = node("Expand", {real(-std::numeric_limits<double>::infinity()), square});
    return mask = node("Trilu", {all, number(1)}, {{"upper", std::int64_t{1}}});
  }

  /// The cosines and the sines, each (T, 1, 1, width / 2), are tables of all places that are cut to the length of the
  /// sequences `x`. Layers of sequences of one length share them.
  OnnxNames rotary_angles(double base, std::int64_t width, const std::string& x) {
    OnnxNames& angles = angles_[{base, width, input_[1]}];
    if (!angles.empty()) return angles;
    const std::string places = extent_of(x, 1);
    const std::int64_t longest = std::max(longest_, input_[1]);
    std::vector<float> cosines, sines;
    for (std::int64_t t = 0; t < longest; ++t)
      for (std::int64_t i = 0; i < width / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    for (const auto* table : {&cosines, &sines}) {
      const auto whole = constant<float>(DataType::float32, {longest, 1, 1, width / 2}, *table);
      angles.push_back(node("Slice", {whole, numbers({0}), places, numbers({0})}));
    }
    return angles;
  }

  std::string rotated(const std::string& x, std::int64_t width, const OnnxNames& angles) {
    const auto halves = divided(x, OnnxExtents(2, width / 2));
    const auto product = [&](std::size_t half, std::size_t table) {
      return node("Mul", {halves[half], angles[table]});
    };
    const std::string first = node("Sub", {product(0, 0), product(1, 1)});
    return node("Concat", {first, node("Add", {product(1, 0), product(0, 1)})}, {{"axis", std::int64_t{-1}}});
  }

  const model::Description& model_;
  const model::ModelTensors& tensors_;
  std::vector<checkpoint::ExportedTensor> weights_;  ///< one for each of the tensors
  std::int64_t longest_;                             ///< places of the longest sequence of tokens
  OnnxGraph graph_;
  OnnxNames outputs_;                ///< outputs of the layers so far
  std::map<std::string, int> used_;  ///< how many names begin so
  std::map<std::int64_t, std::string> masks_;
  std::map<std::tuple<double, std::int64_t, std::int64_t>, OnnxNames> angles_;
  // The layer that is added.
  std::size_t number_ = 0;
  tensor::Shape input_, output_;
};
}  // namespace

OnnxGraph onnx_graph(const checkpoint::Summary& checkpoint) {
  const auto model = model_in(checkpoint);
  const auto tensors = model::tensors_of(model);
  auto graph = GraphBuilder(model, tensors, pytorch_tensors(checkpoint, PytorchLayout::modules),
                            model_options_in(checkpoint).context)
                   .build();
  graph.metadata["distdl.step"] = std::to_string(checkpoint.step.value);
  return graph;
}

}  // namespace distdl::app
