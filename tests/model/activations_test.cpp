// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>

#include <distdl/model/activations.hpp>
#include <distdl/model/models.hpp>

namespace distdl::model {
namespace {
std::vector<LayerMemory> chain(int count, std::size_t bytes) {
  std::vector<LayerMemory> layers;
  for (int i = 0; i < count; ++i) layers.push_back({.bytes = bytes, .from = i - 1});
  return layers;
}

/// Any wiring that model::wire() could give, of which a few layers work in place, and a few outputs are only added up.
std::vector<LayerMemory> random_layers(std::mt19937& random) {
  const int count = 1 + static_cast<int>(random() % 24);
  std::vector<LayerMemory> layers;
  std::vector<int> readers(static_cast<std::size_t>(count), 0);
  for (int i = 0; i < count; ++i) {
    LayerMemory layer{.bytes = 256 * (1 + random() % 9), .from = i - 1};
    if (i > 0 && random() % 6 == 0) layer.from = static_cast<int>(random() % static_cast<unsigned>(i));
    if (i > 0 && random() % 4 == 0) layer.plus = static_cast<int>(random() % static_cast<unsigned>(i));
    if (random() % 5 == 0) layer.workspace = 256 * (1 + random() % 9);
    for (const int read : {layer.from, layer.plus})
      if (read >= 0) ++readers[static_cast<std::size_t>(read)];
    layers.push_back(layer);
  }
  for (LayerMemory& layer : layers) {
    const bool alone = layer.from >= 0 && layer.plus < 0 && readers[static_cast<std::size_t>(layer.from)] == 1;
    if (alone && random() % 3 == 0) {
      layer.in_place = true;
      layer.bytes = layers[static_cast<std::size_t>(layer.from)].bytes;
    }
    if (alone && !layer.in_place && random() % 5 == 0) layer.with_previous = true;
  }
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const bool is_apart = !layers[i].in_place && !layers[i + 1].in_place && !layers[i + 1].with_previous;
    layers[i].is_summed_later = readers[i] == 0 && is_apart;
  }
  return layers;
}

/// Training on numbers: each place in memory has the number of the layer that wrote it last.
class Pass {
 public:
  Pass(std::span<const LayerMemory> layers, const Recomputation& plan) : layers_(layers), plan_(plan) {}

  void run() {
    std::size_t first = 0;
    for (const std::size_t end : plan_.ends) forward(std::exchange(first, end), end);
    for (std::size_t k = plan_.ends.size(); k-- > 0;) {
      const std::size_t begin = k == 0 ? 0 : plan_.ends[k - 1], end = plan_.ends[k];
      if (k + 1 < plan_.ends.size()) forward(begin, end);
      for (std::size_t i = end; i-- > begin;) backward(i);
    }
  }

 private:
  std::size_t owner(std::size_t i) const {
    return layers_[i].in_place ? owner(static_cast<std::size_t>(layers_[i].from)) : i;
  }
  /// Kept outputs lie apart.
  std::size_t place(std::size_t i) const { return plan_.outputs[owner(i)].value_or(1'000'000 * (owner(i) + 1)); }
  /// Of an output that the layer `i` adds to its own: the memory of all such ones.
  static std::size_t addend(std::size_t i, std::size_t before) { return 1'000'000'000 + 256 * (i - before); }
  void add_up(std::size_t i) {
    for (std::size_t k = i; k-- > 0 && layers_[k].is_summed_later;) expect(addend(i, k), 256, static_cast<int>(k), i);
  }
  void write(std::size_t at, std::size_t bytes, int number) {
    for (std::size_t line = 0; line < bytes; line += 256) memory_[at + line] = number;
  }
  void expect(std::size_t at, std::size_t bytes, int number, std::size_t reader) {
    for (std::size_t line = 0; line < bytes; line += 256) ASSERT_EQ(memory_[at + line], number) << "read by " << reader;
  }
  void read(int layer, std::size_t reader) {
    if (layer >= 0)
      expect(place(static_cast<std::size_t>(layer)), layers_[static_cast<std::size_t>(layer)].bytes, layer, reader);
  }
  void forward(std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      read(layers_[i].from, i), read(layers_[i].plus, i);
      std::size_t sum = i;
      while (layers_[sum].is_summed_later) ++sum;
      if (sum > i) write(addend(sum, i), 256, static_cast<int>(i));
      if (sum == i) add_up(i), write(place(i), layers_[i].bytes, static_cast<int>(i));
      if (layers_[i].workspace > 0) write(*plan_.workspaces[i], layers_[i].workspace, -static_cast<int>(i) - 1);
    }
  }
  void backward(std::size_t i) {
    const bool is_overwritten = std::ranges::any_of(
        layers_, [&](const LayerMemory& next) { return next.in_place && next.from == static_cast<int>(i); });
    if (!is_overwritten && !layers_[i].is_summed_later) read(static_cast<int>(i), i);
    if (!layers_[i].in_place) read(layers_[i].from, i);
    if (layers_[i].workspace > 0) expect(*plan_.workspaces[i], layers_[i].workspace, -static_cast<int>(i) - 1, i);
  }

  std::span<const LayerMemory> layers_;
  const Recomputation& plan_;
  std::map<std::size_t, int> memory_;
};

TEST(Recomputation, LeavesWhatBackwardReadsHoweverTheLayersAreWired) {
  std::mt19937 random(3);
  int blocks = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const auto layers = random_layers(random);
    const Recomputation plan = plan_recomputation(layers);
    ASSERT_FALSE(plan.ends.empty());
    EXPECT_EQ(plan.ends.back(), layers.size());
    EXPECT_LE(plan.bytes(), bytes_of(layers));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const bool joined = layers[i].in_place || layers[i].with_previous;
      const auto from = static_cast<std::size_t>(std::max(layers[i].from, 0));
      EXPECT_FALSE(joined && std::ranges::count(plan.ends, from + 1) > 0) << "a block ends between two that are one";
    }
    Pass(layers, plan).run();
    if (HasFatalFailure()) FAIL() << "trial " << trial;
    blocks += static_cast<int>(plan.ends.size());
  }
  EXPECT_GT(blocks, 4000);
}

/// n layers in blocks of k: n / k outputs are kept and k - 1 shared.
TEST(Recomputation, TakesTheSquareRootOfAChain) {
  for (const int count : {1, 4, 16, 64, 100}) {
    std::size_t least = static_cast<std::size_t>(count);
    for (int k = 1; k <= count; ++k) least = std::min<std::size_t>(least, (count + k - 1) / k + k - 1);
    EXPECT_EQ(plan_recomputation(chain(count, 1024)).bytes(), least * 1024) << count;
  }
}

TEST(Recomputation, KeepsAllThatTheLossReads) {
  const std::vector<LayerMemory> slices(4, {.bytes = 1024});  // of a head, at the begin of a stage
  EXPECT_EQ(plan_recomputation(slices).bytes(), bytes_of(slices));
}

TEST(Recomputation, KeepsOneOutputOfEachTransformerBlock) {
  const Options options{.name = "gpt", .layers = 12, .width = 64, .heads = 4, .context = 32, .dropout = 0.1};
  const Description gpt = describe_model(options, {32}, 65);
  const auto layers = estimated_activations(gpt, 2, tensor::DataType::float32);
  const Recomputation plan = plan_recomputation(layers);
  EXPECT_GE(plan.ends.size(), 6u);
  EXPECT_LE(plan.ends.size(), 26u);
  EXPECT_LT(3 * plan.bytes(), bytes_of(layers));
}
}  // namespace
}  // namespace distdl::model
