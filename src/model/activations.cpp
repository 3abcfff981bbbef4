// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <numeric>
#include <variant>

#include <distdl/model/activations.hpp>

namespace distdl::model {
namespace {
constexpr std::size_t kAlignment = 256;  ///< bytes; enough for each backend
constexpr std::size_t kMostTrials = 512;
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

std::size_t padded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The layer whose memory has the output.
std::size_t owner_of(std::span<const LayerMemory> layers, std::size_t layer) {
  while (layers[layer].in_place) layer = static_cast<std::size_t>(layers[layer].from);
  return layer;
}

/// Bytes of memory that the layer needs beside other layers' memory.
std::size_t output_bytes(const LayerMemory& layer) {
  return layer.in_place || layer.is_summed_later ? 0 : padded(layer.bytes);
}

/// Returns possible ends of blocks, ascending: later layers read only the output of the last layer before such an end,
/// and write nowhere into it.
std::vector<std::size_t> possible_ends(std::span<const LayerMemory> layers) {
  const auto count = static_cast<int>(layers.size());
  std::vector<int> last_reader(layers.size(), -1);
  std::vector<bool> is_joined(layers.size(), false);  // with a reader of its output
  for (int i = 0; i < count; ++i) {
    if (layers[i].is_summed_later) is_joined[static_cast<std::size_t>(i)] = true;
    for (const int read : {layers[i].from, layers[i].plus})
      if (read >= 0) last_reader[read] = i;
    if (layers[i].from >= 0 && (layers[i].in_place || layers[i].with_previous)) is_joined[layers[i].from] = true;
  }
  for (int i = 0; i < count; ++i)  // what no layer reads, the loss does
    if (last_reader[i] < 0 && !layers[i].is_summed_later) last_reader[i] = count - 1;
  std::vector<std::size_t> ends;
  for (int end = 1, needed_until = -1; end <= count; ++end) {
    if (needed_until < end && !is_joined[end - 1]) ends.push_back(static_cast<std::size_t>(end));
    needed_until = std::max(needed_until, last_reader[end - 1]);
  }
  return ends;
}

/// The choice among the possible ends of blocks.
class BlockChoice {
 public:
  explicit BlockChoice(std::span<const LayerMemory> layers) : layers_(layers), ends_(possible_ends(layers)) {
    before_.push_back(0);
    for (const LayerMemory& layer : layers)
      before_.push_back(before_.back() + output_bytes(layer) + padded(layer.workspace));
  }

  std::vector<std::size_t> best() {
    std::vector<std::size_t> best, limits = limits_to_try();
    std::size_t least = kNever;
    for (const std::size_t limit : limits)
      if (const std::size_t kept = try_limit(limit); kept < kNever - limit && kept + limit < least) {
        least = kept + limit;
        best = chosen();
      }
    return best;
  }

 private:
  std::size_t kept_at(std::size_t end) const { return output_bytes(layers_[owner_of(layers_, end - 1)]); }
  /// Bytes of layers [first, end) that other blocks can share.
  std::size_t inner(std::size_t first, std::size_t end) const { return before_[end] - before_[first] - kept_at(end); }
  std::size_t first_of(std::size_t k) const { return k == 0 ? 0 : ends_[k - 1]; }

  std::vector<std::size_t> limits_to_try() const {
    std::vector<std::size_t> limits;
    for (std::size_t k = 0; k < ends_.size(); ++k)
      for (std::size_t j = 0; j <= k; ++j) limits.push_back(inner(first_of(j), ends_[k]));
    std::sort(limits.begin(), limits.end());
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    std::vector<std::size_t> some;
    const std::size_t step = (limits.size() + kMostTrials - 1) / kMostTrials;
    for (std::size_t i = step - 1; i < limits.size(); i += step) some.push_back(limits[i]);
    return some;
  }

  /// The least bytes that are kept where no block shares more than `limit`.
  std::size_t try_limit(std::size_t limit) {
    kept_.assign(ends_.size() + 1, kNever);
    from_.assign(ends_.size() + 1, 0);
    kept_[0] = 0;
    for (std::size_t k = 1; k <= ends_.size(); ++k)
      for (std::size_t j = 0; j < k; ++j) {
        if (kept_[j] == kNever || inner(first_of(j), ends_[k - 1]) > limit) continue;
        const std::size_t kept = kept_[j] + kept_at(ends_[k - 1]);
        if (kept < kept_[k]) kept_[k] = kept, from_[k] = j;
      }
    return kept_.back();
  }

  std::vector<std::size_t> chosen() const {
    std::vector<std::size_t> ends;
    for (std::size_t k = ends_.size(); k > 0; k = from_[k]) ends.push_back(ends_[k - 1]);
    std::reverse(ends.begin(), ends.end());
    return ends;
  }

  std::span<const LayerMemory> layers_;
  std::vector<std::size_t> ends_;    ///< possible ones
  std::vector<std::size_t> before_;  ///< bytes of all layers before each
  std::vector<std::size_t> kept_, from_;
};
}  // namespace

Recomputation plan_recomputation(std::span<const LayerMemory> layers, std::span<const LayerMemory> sizes) {
  std::vector<LayerMemory> sized(layers.begin(), layers.end());
  for (std::size_t i = 0; i < sized.size(); ++i)
    sized[i].bytes = sizes[i].bytes, sized[i].workspace = sizes[i].workspace;
  Recomputation plan{BlockChoice(sized).best(), {}, {}, 0, 0};
  plan.outputs.resize(layers.size());
  plan.workspaces.resize(layers.size());
  std::size_t layer = 0;
  for (const std::size_t end : plan.ends) {
    const std::size_t kept = owner_of(layers, end - 1);
    std::size_t used = 0;
    const auto take = [&](std::size_t bytes) { return (used += padded(bytes)) - padded(bytes); };
    for (; layer < end; ++layer) {
      if (output_bytes(layers[layer]) > 0 && layer != kept) plan.outputs[layer] = take(layers[layer].bytes);
      if (layers[layer].workspace > 0) plan.workspaces[layer] = take(layers[layer].workspace);
    }
    plan.shared = std::max(plan.shared, used);
    plan.kept += output_bytes(layers[kept]);
  }
  return plan;
}

std::size_t bytes_of(std::span<const LayerMemory> layers) {
  return std::accumulate(layers.begin(), layers.end(), std::size_t{0}, [](std::size_t sum, const LayerMemory& layer) {
    return sum + output_bytes(layer) + padded(layer.workspace);
  });
}

std::vector<LayerMemory> estimated_activations(const Description& model, std::int64_t samples, tensor::DataType type) {
  const Wiring wiring = wire(model, samples);
  std::vector<int> readers(model.layers.size(), 0);
  for (const auto& layer : wiring.layers)
    for (const int read : {layer.from, layer.plus})
      if (read >= 0) ++readers[static_cast<std::size_t>(read)];
  std::vector<LayerMemory> layers;
  layers.reserve(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& [from, plus, input, output, shards] = wiring.layers[i];
    LayerMemory layer{.bytes = static_cast<std::size_t>(tensor::element_count(output)) * tensor::size_of(type),
                      .from = from,
                      .plus = plus};
    const bool alone = from >= 0 && readers[static_cast<std::size_t>(from)] == 1;
    const auto& shard = model.layers[i].shard;
    layer.is_summed_later = shard && sums_outputs(shard->split) && shards.empty();
    layer.in_place = alone && std::holds_alternative<kernels::Relu>(model.layers[i].spec);
    if (const auto* attention = std::get_if<kernels::Attention>(&model.layers[i].spec)) {
      const auto layout = kernels::layout_of(*attention, input);
      layer.workspace =
          static_cast<std::size_t>(input[0] * attention->heads * layout.queries * layout.places) * sizeof(float);
    }
    layers.push_back(layer);
  }
  return layers;
}

}  // namespace distdl::model
