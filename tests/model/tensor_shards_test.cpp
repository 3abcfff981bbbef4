// SPDX-License-Identifier: Apache-2.0
// Models that are divided into shards: the same numbers, but for the order of additions.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/bound_network.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
using testing::HasSubstr;

struct Case {
  std::string name;
  Description model;
  std::vector<std::int64_t> shards;
};

/// A small residual network. The gradient of a bias before a batch norm would be 0, but for rounding.
Description residual() {
  const auto conv = [](const std::string& name, std::int64_t out, std::int64_t stride, std::optional<Split> split) {
    return NamedLayer{
        .name = name,
        .spec =
            kernels::Conv2d{.out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = split != Split::outputs},
        .split = split};
  };
  Description model{"residual", {3, 8, 8}, 5, {conv("conv1", 12, 1, {}), {"relu1", kernels::Relu{}}}};
  auto& layers = model.layers;
  layers.push_back(conv("conv2", 8, 2, Split::outputs));
  layers.push_back({"bn2", kernels::BatchNorm{}});
  layers.push_back({"relu2", kernels::Relu{}});
  layers.push_back(conv("conv3", 12, 1, Split::inputs));
  layers.push_back({"skip", kernels::Conv2d{.out = 12, .kernel = 1, .stride = 2, .bias = false}, "relu1", "conv3"});
  layers.push_back({"relu3", kernels::Relu{}});
  layers.push_back({"pool", kernels::GlobalAveragePool{}});
  layers.push_back({"fc", kernels::Linear{5}});
  return model;
}

std::vector<Case> cases() {
  const Options gpt{.name = "gpt", .layers = 2, .width = 32, .heads = 4, .context = 10, .dropout = 0.2};
  Options llama = gpt, untied = gpt;
  llama.variant = "llama";
  llama.kv_heads = 2;
  untied.tied_head = false;
  Options own_head = llama;
  own_head.tied_head = false;
  Description smooth = describe_model(untied, {8}, 13);
  smooth.loss = kernels::CrossEntropy{.smoothing = 0.1f, .ignore = 5};
  const Options vit{.name = "vit", .layers = 2, .width = 24, .heads = 3, .patch = 4, .dropout = 0.1};
  return {{"gpt", describe_model(gpt, {8}, 11), {2, 4}},
          {"gpt with a head of its own", describe_model(untied, {8}, 11), {4}},
          {"llama with grouped heads", describe_model(llama, {8}, 11), {2}},
          {"llama with a head of its own", describe_model(own_head, {8}, 11), {2}},
          {"gpt with another loss", smooth, {4}},
          {"vit", describe_model(vit, {3, 8, 8}, 5), {3}},
          {"residual", residual(), {2, 4}}};
}

using Tensors = std::map<std::string, std::vector<float>>;

/// Whole tensors from an arena.
Tensors whole(const ModelTensors& tensors, const std::vector<float>& arena) {
  Tensors all;
  for (const auto& view : tensors.layout.tensors()) {
    auto& values = all[view.whole_name()];
    values.resize(static_cast<std::size_t>(tensor::element_count(view.whole_shape())));
    std::vector<float> places(values.size()), mine(view.count);
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<float>(i);
    if (!view.part_of) mine = places;
    if (view.part_of) tensor::copy_part(view, places, mine);
    for (std::size_t i = 0; i < mine.size(); ++i) values[static_cast<std::size_t>(mine[i])] = arena[view.offset + i];
  }
  return all;
}

/// What each view has, and the totals of a gradient arena.
Tensors views(const ModelTensors& tensors, const std::vector<float>& arena) {
  Tensors all;
  const auto begin = arena.begin(), end = begin + static_cast<std::ptrdiff_t>(tensors.layout.size());
  for (const auto& view : tensors.layout.tensors()) {
    const auto from = begin + static_cast<std::ptrdiff_t>(view.offset);
    all[view.name] = {from, from + static_cast<std::ptrdiff_t>(view.count)};
  }
  all["totals"] = {end, arena.end()};
  return all;
}

class Divided : public testing::TestWithParam<std::string> {};

TEST_P(Divided, HasTheSameStartValuesAndNearlyTheSameGradients) {
  for (const auto& [name, model, numbers] : cases())
    for (const std::int64_t shards : numbers) {
      BoundNetwork one(GetParam(), model, 3), divided(GetParam(), divide(model, shards), 3);
      EXPECT_EQ(parameter_count(divided.tensors), parameter_count(one.tensors)) << name;
      EXPECT_EQ(whole(divided.tensors, divided.parameters), whole(one.tensors, one.parameters)) << name;
      const Tensors expected = whole(one.tensors, one.run()), gradients = whole(divided.tensors, divided.run());
      EXPECT_NEAR(divided.loss(), one.loss(), 1e-5 * one.loss()) << name;
      for (const auto& [tensor, values] : expected) {
        double difference = 0, length = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          difference += std::pow(double{gradients.at(tensor)[i]} - values[i], 2);
          length += std::pow(values[i], 2);
        }
        EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(length)) << name << " in " << shards << ": " << tensor;
      }
    }
}

TEST_P(Divided, EvaluatesTheSame) {
  for (const auto& [name, model, numbers] : cases()) {
    BoundNetwork one(GetParam(), model, 3), divided(GetParam(), divide(model, numbers.back()), 3);
    const auto expected = one.network.evaluate(), found = divided.network.evaluate();
    EXPECT_NEAR(found.loss, expected.loss, 1e-5 * expected.loss) << name;
    EXPECT_EQ(found.correct, expected.correct) << name;
    EXPECT_EQ(found.count, expected.count) << name;
  }
}

TEST_P(Divided, RecomputesActivationsWithTheSameBits) {
  for (const auto& [name, model, numbers] : cases()) {
    const auto divided = divide(model, numbers.back());
    BoundNetwork keeps(GetParam(), divided, 3),
        recomputes(GetParam(), divided, 3, "fp32", Network::Activations::recomputed);
    for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(recomputes.run(), keeps.run()) << name;
    EXPECT_LT(recomputes.network.activation_bytes(), keeps.network.activation_bytes()) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Backends, Divided, testing::Values("reference", "onednn"),
                         [](const auto& param) { return param.param; });

TEST(TensorShards, OfResnetsAreThoseOfTheirConvolutions) {
  for (const std::string name : {"resnet18", "resnet50"}) {
    const auto model = describe_model({.name = name}, {3, 32, 32}, 10), divided = divide(model, 4);
    EXPECT_EQ(parameter_count(tensors_of(divided)), parameter_count(tensors_of(model)));
    const auto tensors = tensors_of(branches_of(divided, 1, 1)).layout;
    const auto& first = *tensors.find("layer1.0.conv1[1].weight");
    const auto& norm = *tensors.find("layer1.0.bn1[1].running_var");
    const auto& second = *tensors.find("layer1.0.conv2[1].weight");
    EXPECT_EQ(first.shape[0], 16) << name;
    EXPECT_EQ(norm.shape[0], 16) << name;
    EXPECT_EQ(second.shape, (tensor::Shape{64, 16, 3, 3})) << name;
    EXPECT_EQ(second.part_of->boxes.front().offset[1], 16) << name;
  }
}

TEST(TensorShards, OneIsTheModelAsItIs) {
  for (const auto& [name, model, numbers] : cases()) {
    const auto same = divide(model, 1);
    ASSERT_EQ(same.layers.size(), model.layers.size());
    for (const auto& layer : same.layers) EXPECT_FALSE(layer.shard) << layer.name;
    const auto tensors = tensors_of(same);
    for (const auto& view : tensors.layout.tensors()) EXPECT_FALSE(view.part_of) << view.name;
  }
}

TEST(TensorShards, PartsOfATensorFollowEachOther) {
  const auto tensors = tensors_of(divide(cases().front().model, 4)).layout.tensors();
  for (std::size_t i = 1; i < tensors.size(); ++i)
    for (std::size_t j = 0; j + 1 < i; ++j)
      EXPECT_TRUE(!tensor::same_whole(tensors[i], tensors[j]) || tensor::same_whole(tensors[i], tensors[i - 1]))
          << tensors[i].name;
}

/// Adds the branches of threads that stand for ranks.
class Exchange {
 public:
  Exchange(std::size_t branches, std::size_t ranks)
      : all_(branches), rows_(branches), sync_(static_cast<std::ptrdiff_t>(ranks)) {}
  /// Copies what each rank has of `all` to the others.
  void gather(std::size_t first, std::size_t own, void* all, std::size_t bytes) {
    auto* const mine = static_cast<std::byte*>(all);
    for (std::size_t i = first; i < first + own; ++i) all_[i] = mine + i * bytes;
    sync_.arrive_and_wait();
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (i < first || i >= first + own) std::memcpy(mine + i * bytes, all_[i], bytes);
    sync_.arrive_and_wait();
  }
  /// Copies to `all` the values at `rows` of each rank, which are those of its slices.
  void gather_rows(std::size_t first, std::size_t own, const void* rows, void* all, std::span<const std::size_t> counts,
                   std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(rows);
    for (std::size_t i = first; i < first + own; from += counts[i++] * bytes) rows_[i] = from;
    sync_.arrive_and_wait();
    std::vector<std::byte> whole;
    for (std::size_t i = 0; i < counts.size(); ++i) whole.insert(whole.end(), rows_[i], rows_[i] + counts[i] * bytes);
    sync_.arrive_and_wait();
    std::ranges::copy(whole, static_cast<std::byte*>(all));
  }
  void sum_to_rows(kernels::Backend& backend, std::size_t first, const kernels::ActivationFormat& format,
                   std::span<void* const> addends, void* rows, std::span<const std::size_t> counts) {
    sum(backend, first, format, addends);
    const auto values = [&](std::size_t begin, std::size_t count) {
      const auto from = counts.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::accumulate(from, from + static_cast<std::ptrdiff_t>(count), std::size_t{0}) *
             tensor::size_of(format.type);
    };
    backend.copy(rows, static_cast<const std::byte*>(addends[0]) + values(0, first), values(first, addends.size()));
  }
  void sum(kernels::Backend& backend, std::size_t first, const kernels::ActivationFormat& format,
           std::span<void* const> addends) {
    std::ranges::copy(addends, all_.begin() + static_cast<std::ptrdiff_t>(first));
    sync_.arrive_and_wait();
    std::vector<tensor::Buffer> copies;
    std::vector<void*> own;
    for (const void* addend : all_) {
      copies.push_back(backend.allocate(format.bytes));
      backend.copy(own.emplace_back(copies.back().data()), addend, format.bytes);
    }
    sync_.arrive_and_wait();
    backend.sum(format, own);
    backend.copy(addends[0], own[0], format.bytes);
  }

 private:
  std::vector<void*> all_;
  std::vector<const std::byte*> rows_;
  std::barrier<> sync_;
};

/// A network on each of some ranks, with their branches and slices of rows, against one with all of them.
struct OnRanks {
  std::string name;
  Description divided;
  std::size_t ranks = 1;
  std::int64_t samples = 3;
  Network::Activations activations = Network::Activations::kept;
};

void expect_the_same_bits(const std::string& backend, const OnRanks& on) {
  const auto shards = static_cast<std::size_t>(on.divided.rows.slices);
  BoundNetwork alone(backend, on.divided, on.samples);
  const Tensors start = views(alone.tensors, alone.parameters), expected = views(alone.tensors, alone.run());
  Exchange exchange(shards, on.ranks);
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < on.ranks; ++rank)
    threads.emplace_back([&, first = shards * rank / on.ranks, end = shards * (rank + 1) / on.ranks] {
      const std::size_t own = end - first;
      BoundNetwork part(backend, branches_of(on.divided, first, own), on.samples, "fp32", on.activations);
      part.network.set_exchange_of_shards(
          {[&](const auto& format, auto addends) { exchange.sum(*part.backend, first, format, addends); },
           [&](tensor::DataType type, void* all, std::size_t count) {
             exchange.gather(first, own, all, count * tensor::size_of(type));
           },
           [&](const auto& format, auto addends, void* rows, auto counts) {
             exchange.sum_to_rows(*part.backend, first, format, addends, rows, counts);
           },
           [&](tensor::DataType type, const void* rows, void* all, auto counts) {
             exchange.gather_rows(first, own, rows, all, counts, tensor::size_of(type));
           }});
      const auto where = fmt::format("{} of {} samples on {} ranks", on.name, on.samples, on.ranks);
      for (const auto& [tensor, values] : views(part.tensors, part.parameters))
        EXPECT_EQ(values, start.at(tensor)) << where << ": " << tensor;
      for (int pass = 0; pass < 2; ++pass)
        for (const auto& [tensor, values] : views(part.tensors, part.run()))
          EXPECT_EQ(values, expected.at(tensor)) << where << ": " << tensor;
    });
}

TEST_P(Divided, HasTheSameBitsWhereRanksHaveSomeBranchesEach) {
  for (const auto& [name, model, numbers] : cases()) {
    const auto shards = static_cast<std::size_t>(numbers.back());
    for (const std::size_t ranks : std::set<std::size_t>{2, shards - 1, shards})
      if (ranks > 1) expect_the_same_bits(GetParam(), {name, divide(model, numbers.back()), ranks});
    expect_the_same_bits(GetParam(), {.name = name,
                                      .divided = divide(model, numbers.back()),
                                      .ranks = shards,
                                      .samples = 1,
                                      .activations = Network::Activations::recomputed});
  }
}

TEST_P(Divided, HasTheSameBitsWhereSlicesHaveNoRows) {
  const Options options{.name = "gpt", .layers = 1, .width = 32, .heads = 4, .context = 10, .dropout = 0.2};
  for (const std::size_t ranks : {2, 3, 4})
    expect_the_same_bits(GetParam(), {"short", divide(describe_model(options, {3}, 11), 4), ranks, 1});
}

/// Each rank keeps its branches and its rows. Of a vit it keeps the patches, too.
TEST(TensorShards, DivideTheMemoryForActivations) {
  const Options gpt{.name = "gpt", .layers = 2, .width = 64, .heads = 4, .context = 32, .dropout = 0.1};
  Options llama = gpt;
  llama.variant = "llama";
  const Options vit{.name = "vit", .layers = 2, .width = 64, .heads = 4, .patch = 8};
  const auto backend = kernels::make_backend({.backend = "reference"});
  for (const auto& model :
       {describe_model(gpt, {32}, 64), describe_model(llama, {32}, 64), describe_model(vit, {3, 32, 32}, 5)}) {
    const auto divided = divide(model, 4);
    const auto bytes_of = [&](const Description& held, Network::Activations activations) {
      return Network(*backend, held, tensors_of(held), 4, activations).activation_bytes();
    };
    const auto all = bytes_of(divided, Network::Activations::kept);
    std::size_t sum = 0;
    for (std::size_t rank = 0; rank < 4; ++rank)
      sum += bytes_of(branches_of(divided, rank, 1), Network::Activations::kept);
    EXPECT_GE(sum, all) << model.name;
    EXPECT_LT(static_cast<double>(sum), (model.name == "gpt" ? 1.01 : 1.3) * static_cast<double>(all)) << model.name;
    const auto recomputed = bytes_of(divided, Network::Activations::recomputed);
    EXPECT_LT(bytes_of(branches_of(divided, 1, 1), Network::Activations::recomputed), recomputed / 3) << model.name;
  }
}

/// The head of a gpt with a vocabulary of 11, in four slices.
TEST(TensorShards, HaveSlicesOfTheVocabulary) {
  const auto divided = divide(cases().front().model, 4);
  const auto tensors = tensors_of(divided);
  const auto* third = tensors.layout.find("wte[2].weight");
  ASSERT_TRUE(third && third->part_of);
  EXPECT_EQ(third->part_of->name, "wte.weight");
  EXPECT_EQ(third->part_of->boxes, (std::vector<tensor::Box>{{{5, 0}, {3, 32}}})) << "11 * 2 / 4 to 11 * 3 / 4";
  EXPECT_EQ(tensors.tensors.back().view.name, "wte[3].weight") << "which the last slice of the head shares";
  EXPECT_EQ(wire(divided, 2).layers.back().output, (tensor::Shape{2, 8, 3}));
}

/// What of the whole weight each shard has.
TEST(TensorShards, HaveWholeHeads) {
  const Options llama{
      .name = "gpt", .layers = 1, .width = 32, .heads = 4, .kv_heads = 2, .context = 8, .variant = "llama"};
  const auto tensors = tensors_of(divide(describe_model(llama, {8}, 11), 2));
  const auto* second = tensors.layout.find("h.0.attn.c_attn[1].weight");
  ASSERT_TRUE(second && second->part_of);
  EXPECT_EQ(second->part_of->name, "h.0.attn.c_attn.weight");
  EXPECT_EQ(second->part_of->shape, (tensor::Shape{64, 32}));
  const std::vector<tensor::Box> boxes{{{16, 0}, {16, 32}}, {{40, 0}, {8, 32}}, {{56, 0}, {8, 32}}};
  EXPECT_EQ(second->part_of->boxes, boxes) << "queries, keys, values";
  EXPECT_EQ(tensors.layout.find("h.0.attn.c_proj[1].weight")->part_of->boxes,
            (std::vector<tensor::Box>{{{0, 16}, {32, 16}}}));
}

std::string refusal(const Description& model, std::int64_t shards) {
  try {
    divide(model, shards);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(TensorShards, RefusesWhatCannotBeDivided) {
  EXPECT_THAT(
      refusal(cases().front().model, 3),
      HasSubstr("is 3, but must divide the 4 heads of layer \"h.0.attn.heads\"; the nearest number that divides "
                "all layers is 2"));
  EXPECT_THAT(refusal(cases()[2].model, 4), HasSubstr("must divide the 2 heads for keys and values"));
  EXPECT_THAT(
      refusal(describe_model({}, {1, 28, 28}, 10), 2),
      HasSubstr("model \"lenet\" has no layers that can be divided, as \"gpt\", \"vit\" and \"resnet18\" have"));
  EXPECT_THAT(refusal(describe_model({.name = "gpt", .layers = 1, .width = 32, .heads = 4, .context = 8}, {8}, 3), 4),
              HasSubstr("has only 3 entries in its vocabulary, and each shard needs one; the nearest number that is "
                        "possible is 2"));
  Description own = cases().front().model;
  for (auto& layer : own.layers)
    if (layer.name == "h.1.mlp.c_proj") layer.split.reset();
  EXPECT_THAT(refusal(own, 2), HasSubstr("lies between two that are divided, but cannot be: linear"));
}
}  // namespace
}  // namespace distdl::model
