// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include <distdl/app/model/llama_names.hpp>
#include <distdl/app/model/pytorch_names.hpp>
#include <distdl/app/model/trained_model.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
constexpr std::string_view kConv1d[] = {".c_attn.weight", ".c_proj.weight", ".c_fc.weight"};

/// Parameters of timm's vit that belong to no layer there, and are (1, ..., width).
constexpr std::string_view kBareOfVit[] = {"cls_token", "pos_embed"};
constexpr std::size_t kBareDimensions = 3;

/// Prefix of GPT-2's layers, and the last layer, which lies beside them without the prefix.
constexpr std::string_view kTransformer = "transformer.", kLastOfGpt = "lm_head";

/// How many rows each part has of a tensor that is several elsewhere.
std::vector<std::int64_t> rows_of_parts(const model::Description& model, std::int64_t rows, std::size_t parts) {
  if (parts < 3) return std::vector<std::int64_t>(parts, rows / static_cast<std::int64_t>(parts));
  for (const auto& layer : model.layers)
    if (const auto* attention = std::get_if<kernels::Attention>(&layer.spec)) {
      const auto keys = kernels::kv_heads_of(*attention), head = rows / (attention->heads + 2 * keys);
      return {attention->heads * head, keys * head, keys * head};
    }
  throw InternalError("a gpt without attention");
}
}  // namespace

std::vector<checkpoint::ExportedTensor> divided_rows(const model::Description& model,
                                                     const checkpoint::ExportedTensor& whole,
                                                     const std::vector<std::string>& names) {
  std::vector<checkpoint::ExportedTensor> parts;
  const auto rows = rows_of_parts(model, whole.shape.front(), names.size());
  std::int64_t first = 0;
  for (std::size_t part = 0; part < names.size(); ++part) {
    parts.push_back(whole);
    parts.back().name = names[part];
    parts.back().shape.front() = rows[part];
    parts.back().first_row = std::exchange(first, first + rows[part]);
  }
  return parts;
}

bool is_conv1d(std::string_view name) {
  return std::ranges::any_of(kConv1d, [&](std::string_view end) { return name.ends_with(end); });
}

std::vector<checkpoint::ExportedTensor> pytorch_tensors(const checkpoint::Summary& checkpoint, PytorchLayout layout) {
  const auto model = model_in(checkpoint);
  const auto variant = checkpoint.state.find("model.variant");
  const bool is_llama = layout == PytorchLayout::hugging_face && model.name == "gpt" &&
                        variant != checkpoint.state.end() && variant->second == "llama";
  const auto prefix = weights_prefix_in(checkpoint);
  std::vector<checkpoint::ExportedTensor> all;
  for (const auto& tensor : model::tensors_of(model).tensors) {
    const auto from = std::ranges::find(checkpoint.tensors, prefix + tensor.view.name, &checkpoint::TensorEntry::name);
    if (from == checkpoint.tensors.end())
      throw StorageError(fmt::format("\"{}\" lacks the tensor \"{}\" of its model \"{}\"", checkpoint.folder.string(),
                                     prefix + tensor.view.name, model.name),
                         ExitCode::incompatible);
    const auto& layer = model.layers[tensor.layer].name;
    checkpoint::ExportedTensor made{*from, layer + "." + tensor.spec.name, from->shape};
    if (is_llama) {
      std::ranges::move(divided_rows(model, made, llama_names(made.name)), std::back_inserter(all));
      continue;
    }
    if (model.name == "vit" && std::ranges::count(kBareOfVit, layer) > 0) {
      made.name = layer;
      while (made.shape.size() < kBareDimensions) made.shape.insert(made.shape.begin(), 1);
    }
    if (model.name == "gpt" && layer != kLastOfGpt) made.name = std::string(kTransformer) + made.name;
    if (model.name == "gpt" && layout == PytorchLayout::hugging_face && is_conv1d(made.name)) {
      made.turned = true;
      std::ranges::reverse(made.shape);
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace distdl::app
