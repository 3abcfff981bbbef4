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

void check_context(const kernels::Backend& backend, std::int64_t chunks) {
  require(
      chunks == 1 || backend.memory_is_host(),
      "parallel.context_chunks is {}, but the backend \"{}\" cannot divide sequences: use 1, or a backend of the CPU",
      chunks, backend.name());
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

std::size_t chunk_of_leaf(std::size_t leaf, std::size_t chunks) {
  return leaf % 2 == 0 ? leaf / 2 : chunks - 1 - leaf / 2;
}

std::size_t leaf_of_chunk(std::size_t chunk, std::size_t chunks) {
  return chunk < (chunks + 1) / 2 ? 2 * chunk : 2 * (chunks - 1 - chunk) + 1;
}

}  // namespace distdl::model
