// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <variant>

#include <distdl/base/errors.hpp>
#include <distdl/model/context.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
using kernels::Attention;
using kernels::Dropout;
using kernels::PositionEmbedding;

bool is_causal(const Description& model) {
  bool attends = false;
  for (const NamedLayer& layer : model.layers)
    if (const auto* attention = std::get_if<Attention>(&layer.spec)) {
      if (!attention->causal) return false;
      attends = true;
    }
  return attends && model.sample.size() == 1;
}
}  // namespace

void check_context(const Description& model, std::int64_t chunks) {
  if (chunks == 1) return;
  require(is_causal(model),
          "parallel.context_chunks is {}, but the samples of model \"{}\" are no sequences that can be divided, as "
          "those of \"gpt\" are; use 1",
          chunks, model.name);
  require(model.sample[0] % chunks == 0,
          "parallel.context_chunks is {}, but must divide the {} tokens of a sample; the nearest number that does is "
          "{}",
          chunks, model.sample[0], nearest_divisor(model.sample[0], chunks));
}

Description chunk_of(const Description& model, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t all = model.sample[0], places = all / chunks, first = chunk * places;
  Description part = model;
  part.context = {};
  part.sample = {places};
  part.layers.clear();
  for (NamedLayer layer : model.layers) {
    if (auto* dropout = std::get_if<Dropout>(&layer.spec)) dropout->first = first, dropout->all = all;
    if (auto* position = std::get_if<PositionEmbedding>(&layer.spec)) position->first = first;
    if (auto* attention = std::get_if<Attention>(&layer.spec)) {
      attention->queries = places;
      attention->before = first;
      part.layers.push_back({.name = layer.name + ".context",
                             .spec = kernels::JoinContext{attention->heads, kernels::kv_heads_of(*attention), first},
                             .from = std::exchange(layer.from, {}),
                             .branch = layer.branch});
    }
    part.layers.push_back(std::move(layer));
  }
  return part;
}

ModelTensors tensors_of_chunk(const Description& model, ModelTensors tensors) {
  std::vector<std::size_t> numbers;  // number of each layer, and of the end
  std::size_t next = 0;
  for (const NamedLayer& layer : model.layers) {
    if (std::holds_alternative<Attention>(layer.spec)) ++next;  // its JoinContext is before it
    numbers.push_back(next++);
  }
  numbers.push_back(next);
  for (ModelTensor& tensor : tensors.tensors) {
    tensor.layer = numbers[tensor.layer];
    if (tensor.elsewhere) tensor.elsewhere = numbers[*tensor.elsewhere];
  }
  tensors.layers = {numbers[tensors.layers.first], numbers[tensors.layers.end]};
  return tensors;
}

std::size_t chunk_of_leaf(std::size_t leaf, std::size_t chunks) {
  return leaf % 2 == 0 ? leaf / 2 : chunks - 1 - leaf / 2;
}

std::size_t leaf_of_chunk(std::size_t chunk, std::size_t chunks) {
  return chunk < (chunks + 1) / 2 ? 2 * chunk : 2 * (chunks - 1 - chunk) + 1;
}

}  // namespace distdl::model
