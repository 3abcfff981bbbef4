// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
using kernels::Attention;
using kernels::BatchNorm;
using kernels::Conv2d;
using kernels::Embedding;
using kernels::GatedSilu;
using kernels::LayerSpec;
using kernels::Linear;

/// Channels of images, or the width of rows.
std::int64_t width_of(const tensor::Shape& values) {
  return values.size() == 4 ? values[1] : values.back();
}
/// Calls `change` with the layer, which is a linear one or a convolution.
void change_product(LayerSpec& spec, const auto& change) {
  auto* const convolution = std::get_if<Conv2d>(&spec);
  if (convolution == nullptr) return change(std::get<Linear>(spec));
  require(convolution->groups == 1, "a convolution with {} groups cannot be divided into tensor shards",
          convolution->groups);
  change(*convolution);
}

/// A number that the number of shards must divide.
struct Divisible {
  std::int64_t number = 0;
  const char* what = "";
  std::string layer;
};

std::vector<Divisible> divisible_by_shards(const Description& model, const Wiring& wiring) {
  std::vector<Divisible> all;
  for (std::size_t i = 0; i + 1 < model.layers.size(); ++i) {
    if (model.layers[i].split != Split::outputs) continue;
    const NamedLayer& next = model.layers[i + 1];
    if (const auto* attention = std::get_if<Attention>(&next.spec)) {
      all.push_back({attention->heads, "heads", next.name});
      all.push_back({kernels::kv_heads_of(*attention), "heads for keys and values", next.name});
    } else {
      all.push_back({width_of(wiring.layers[i + 1].output), "outputs", next.name});
    }
  }
  return all;
}

void check(const Description& model, const Wiring& wiring, std::int64_t shards) {
  const auto all = divisible_by_shards(model, wiring);
  require(!all.empty(),
          "parallel.tensor_shards is {}, but model \"{}\" has no layers that can be divided, as \"gpt\", \"vit\" and "
          "\"resnet18\" have; use 1",
          shards, model.name);
  std::int64_t common = 0;
  for (const Divisible& one : all) common = std::gcd(common, one.number);
  for (const auto& [number, what, layer] : all)
    require(number % shards == 0,
            "parallel.tensor_shards is {}, but must divide the {} {} of layer \"{}\"; the nearest number that divides "
            "all layers is {}",
            shards, number, what, layer, nearest_divisor(common, shards));
  const bool has_slices =
      std::ranges::any_of(model.layers, [](const NamedLayer& layer) { return layer.split == Split::entries; });
  if (!has_slices || model.classes >= shards) return;
  std::int64_t most = std::max<std::int64_t>(model.classes, 1);
  while (common % most != 0) --most;
  throw ConfigError(fmt::format(
      "parallel.tensor_shards is {}, but model \"{}\" has only {} entries in its vocabulary, and each shard "
      "needs one; the nearest number that is possible is {}",
      shards, model.name, model.classes, most));
}

/// True if each shard needs only the part of the layer that fits its part of the input.
bool divides_by_itself(const LayerSpec& spec) {
  return std::visit(
      []<class Spec>(const Spec&) {
        return kernels::Elementwise<Spec> || std::is_same_v<Spec, Attention> || std::is_same_v<Spec, GatedSilu> ||
               std::is_same_v<Spec, BatchNorm>;
      },
      spec);
}

class Divider {
 public:
  Divider(const Description& model, const Wiring& wiring, std::int64_t shards)
      : model_(model), wiring_(wiring), shards_(shards) {}

  std::vector<NamedLayer> operator()() {
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const NamedLayer& layer = model_.layers[i];
      if (layer.split == Split::outputs)
        begin(i);
      else if (layer.split == Split::inputs)
        end(i);
      else if (layer.split == Split::entries)
        divide_table(i);
      else if (in_branches_)
        go_on(i);
      else
        layers_.push_back(layer);
    }
    require(!in_branches_ || model_.layers.back().split == Split::outputs,
            "layer \"{}\" of model \"{}\" begins branches that do not end", before_, model_.name);
    return std::move(layers_);
  }

 private:
  static NamedLayer part_of(const NamedLayer& layer, std::int64_t shard) {
    NamedLayer part = layer;
    part.name = name(layer.name, shard);
    part.branch = static_cast<std::size_t>(shard);
    return part;
  }
  static std::string name(const std::string& layer, std::int64_t shard) { return fmt::format("{}[{}]", layer, shard); }
  std::size_t tensors_of(std::size_t i) const {
    return kernels::parameters_of(model_.layers[i].spec, wiring_.layers[i].input).size();
  }

  /// Sizes of the outputs' groups that the next layer computes apart: queries, keys and values; the gate and the gated
  /// values.
  std::vector<std::int64_t> groups(std::size_t i) const {
    const std::int64_t out = width_of(wiring_.layers[i].output);
    if (i + 1 == model_.layers.size()) return {out};
    const LayerSpec& next = model_.layers[i + 1].spec;
    if (const auto* attention = std::get_if<Attention>(&next)) {
      const std::int64_t kv = kernels::kv_heads_of(*attention), width = out / (attention->heads + 2 * kv);
      return {attention->heads * width, kv * width, kv * width};
    }
    if (std::holds_alternative<GatedSilu>(next)) return {out / 2, out / 2};
    return {out};
  }

  Shard::Range range_of(std::int64_t all, std::int64_t shard) const {
    const std::int64_t first = all * shard / shards_;
    return {first, all * (shard + 1) / shards_ - first};
  }
  bool is_table(const std::string& layer) const {
    return std::ranges::any_of(
        model_.layers, [&](const NamedLayer& other) { return other.name == layer && other.split == Split::entries; });
  }

  void divide_table(std::size_t i) {
    const NamedLayer& layer = model_.layers[i];
    for (std::int64_t s = 0; s < shards_; ++s) {
      NamedLayer part = part_of(layer, s);
      auto& table = std::get<Embedding>(part.spec);
      const auto range = range_of(table.entries, s);
      part.shard = Shard{Split::entries, layer.name, table.entries, tensors_of(i), {range}, shards_};
      table = {range.count, table.width, range.first, table.entries};
      layers_.push_back(std::move(part));
    }
  }

  void begin(std::size_t i) {
    const NamedLayer& layer = model_.layers[i];
    require(!in_branches_ && (i > 0 || !layer.from.empty()),
            "layer \"{}\" of model \"{}\" cannot be divided: it takes the samples, or is itself a part of branches",
            layer.name, model_.name);
    const std::int64_t out = width_of(wiring_.layers[i].output);
    for (std::int64_t s = 0; s < shards_; ++s) {
      Shard shard{Split::outputs, layer.name, out, tensors_of(i), {}, shards_};
      std::int64_t first = 0, own = 0;
      for (const std::int64_t group : groups(i)) {
        const auto range = range_of(group, s);
        shard.ranges.push_back({first + range.first, range.count});
        first += group;
        own += range.count;
      }
      NamedLayer part = part_of(layer, s);
      if (part.from.empty()) part.from = model_.layers[i - 1].name;
      if (is_table(part.shares)) part.shares = name(part.shares, s);
      change_product(part.spec, [&](auto& product) { product.out = own; });
      part.shard = std::move(shard);
      layers_.push_back(std::move(part));
    }
    in_branches_ = true;
    before_ = layer.name;
  }

  void go_on(std::size_t i) {
    const NamedLayer& layer = model_.layers[i];
    const std::int64_t values = width_of(wiring_.layers[i].output);
    require(divides_by_itself(layer.spec) && layer.from.empty() && layer.plus.empty(),
            "layer \"{}\" of model \"{}\" lies between two that are divided, but cannot be: {}", layer.name,
            model_.name, kernels::kind_of(layer.spec));
    for (std::int64_t s = 0; s < shards_; ++s) {
      NamedLayer part = part_of(layer, s);
      part.from = name(before_, s);
      if (const auto tensors = tensors_of(i); tensors > 0)
        part.shard = Shard{Split::values, layer.name, values, tensors, {range_of(values, s)}, shards_};
      if (auto* attention = std::get_if<Attention>(&part.spec)) {
        attention->kv_heads = kernels::kv_heads_of(*attention) / shards_;
        attention->heads /= shards_;
      }
      layers_.push_back(std::move(part));
    }
    before_ = layer.name;
  }

  void end(std::size_t i) {
    const NamedLayer& layer = model_.layers[i];
    const std::int64_t in = width_of(wiring_.layers[i].input);
    for (std::int64_t s = 0; s < shards_; ++s) {
      NamedLayer part = part_of(layer, s);
      part.from = name(before_, s);
      part.shard = Shard{Split::inputs, layer.name, in, tensors_of(i), {range_of(in, s)}, shards_};
      change_product(part.spec, [&](auto& product) { product.bias = product.bias && s + 1 == shards_; });
      layers_.push_back(std::move(part));
    }
    in_branches_ = false;
  }

  const Description& model_;
  const Wiring& wiring_;
  std::int64_t shards_;
  std::vector<NamedLayer> layers_;
  bool in_branches_ = false;
  std::string before_;  ///< the last layer of the branches, without a shard's number
};
}  // namespace

std::int64_t nearest_divisor(std::int64_t number, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t d = 2; d <= number; ++d)
    if (number % d == 0 && std::abs(d - wanted) < std::abs(best - wanted)) best = d;
  return best;
}

Description divide(const Description& model, std::int64_t shards) {
  if (shards == 1) return model;
  const Wiring wiring = wire(model, 1);
  check(model, wiring, shards);
  Description divided = model;
  divided.layers = Divider(model, wiring, shards)();
  divided.rows = {shards, 0, shards};
  return divided;
}

Description branches_of(const Description& divided, std::size_t first, std::size_t count) {
  Description some = divided;
  some.rows.first = static_cast<std::int64_t>(first);
  some.rows.count = static_cast<std::int64_t>(count);
  std::erase_if(some.layers, [&](const NamedLayer& layer) {
    return layer.branch && (*layer.branch < first || *layer.branch >= first + count);
  });
  return some;
}

}  // namespace distdl::model
