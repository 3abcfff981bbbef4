// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/model/bound_network.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/kernels/unavailable.hpp>
#include <distdl/model/sliced_head.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::model {
namespace {
using kernels::Conv2d;
using kernels::Linear;
using kernels::Relu;

TEST(Model, LenetHasTheShapesOfThePublishedOne) {
  auto tensors = tensors_of(describe_model({}, {1, 28, 28}, 10));
  EXPECT_EQ(parameter_count(tensors), 320u + 18496u + 401536u + 1290u);
  EXPECT_EQ(tensors.layout.find("conv2.weight")->shape, (tensor::Shape{64, 32, 3, 3}));
  EXPECT_EQ(tensors.layout.find("fc1.weight")->shape, (tensor::Shape{128, 64 * 7 * 7}));
}

TEST(Model, RefusesWhatDoesNotFit) {
  EXPECT_THROW(describe_model({.name = "resnet"}, {1, 28, 28}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {1, 2, 2}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {100}, 10), ConfigError);
  EXPECT_THROW(describe_model({}, {1, 28, 28}, 1), ConfigError);
  EXPECT_THROW(describe_model({.hidden = {0}}, {1, 28, 28}, 10), ConfigError);
}

Description of_layers(std::vector<NamedLayer> layers) {
  return {"mine", {1, 4, 4}, 3, std::move(layers)};
}

TEST(Model, RefusesLayersThatCannotBeWired) {
  EXPECT_THROW(wire(of_layers({{"a", Linear{3}}, {"a", Relu{}}}), 2), ConfigError);
  EXPECT_THROW(wire(of_layers({{"a", Linear{3}}, {.name = "b", .spec = Linear{3}, .from = "c"}}), 2), ConfigError);
  EXPECT_THROW(wire(of_layers({{"a", Linear{4}}, {.name = "b", .spec = Linear{3}, .plus = "a"}}), 2), ConfigError);
  EXPECT_THROW(wire(of_layers({{"a", Linear{3}}, {.name = "b", .spec = Relu{}, .plus = "a"}}), 2), ConfigError);
  EXPECT_THROW(tensors_of(of_layers({{"a", Linear{3}}, {.name = "b", .spec = Linear{3}, .shares = "a"}})), ConfigError);
}

TEST(Model, StartValuesDependOnTheSeedOnly) {
  auto tensors = tensors_of(describe_model({.name = "mlp"}, {1, 4, 4}, 3));
  std::vector<float> a(tensors.layout.size()), b(a), c(a);
  initialize(tensors, 5, a);
  initialize(tensors, 5, b);
  initialize(tensors, 6, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  float bound = 1 / std::sqrt(16.0f), largest = 0;
  const auto* weight = tensors.layout.find("fc1.weight");
  for (std::size_t i = 0; i < weight->count; ++i) largest = std::max(largest, std::abs(a[weight->offset + i]));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.9f * bound);
}

TEST(Model, NormalStartValuesHaveTheirDeviation) {
  const auto tensors = tensors_of(describe_model({.name = "gpt", .layers = 1, .width = 96, .heads = 2}, {8}, 256));
  std::vector<float> values(tensors.layout.size());
  initialize(tensors, 1, values);
  const auto* weight = tensors.layout.find("h.0.mlp.c_fc.weight");
  double sum = 0, squares = 0;
  std::size_t far = 0;
  for (std::size_t i = weight->offset; i < weight->offset + weight->count; ++i) {
    sum += values[i];
    squares += double{values[i]} * values[i];
    if (std::abs(values[i]) > 0.04f) ++far;
  }
  const auto count = static_cast<double>(weight->count);  // 36,864
  EXPECT_NEAR(sum / count, 0, 0.02 * 4 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.02 * 4 / std::sqrt(2 * count));
  EXPECT_NEAR(static_cast<double>(far) / count, 0.0455, 0.005);  // beyond two deviations
}

/// Adds images that the backend may arrange in one way to images that it arranges in another.
Description rearranging() {
  return of_layers({{"conv", Conv2d{.out = 18, .padding = 1}},
                    {"a", kernels::Gelu{}},
                    {.name = "b", .spec = kernels::Dropout{.probability = 0.5f}, .plus = "a"},
                    {.name = "c", .spec = Conv2d{.out = 18, .padding = 1}, .plus = "b"},
                    {"logits", Linear{3}}});
}

struct Small {
  std::string name;
  Description model;
  bool smooth = true;  ///< enough for finite differences
  double step = 1e-2;  ///< for these
};

/// Everything that a list of layers can say: takes from an earlier layer twice, adds, shares, and at last adds to what
/// it took.
Description tangled() {
  Description model =
      of_layers({{"first", Linear{5}},
                 {"second", Linear{5}},
                 {.name = "again", .spec = Linear{5}, .from = "first"},
                 {.name = "sum", .spec = Linear{5}, .plus = "second"},
                 {.name = "shared", .spec = Linear{5}, .from = "first", .plus = "sum", .shares = "second"},
                 {.name = "self", .spec = kernels::Gelu{}, .plus = "shared"},
                 {"last", Linear{3}}});
  return model;
}

std::vector<Small> small_models() {
  const Options gpt{.name = "gpt", .layers = 2, .width = 24, .heads = 4, .context = 10};
  Options llama = gpt, dropping = gpt, untied = gpt;
  llama.variant = "llama";
  llama.kv_heads = 2;
  dropping.dropout = 0.2;
  untied.gelu = "erf";
  untied.tied_head = false;
  Description regression = describe_model({.name = "mlp", .hidden = {7}}, {1, 4, 4}, 3);
  regression.loss = kernels::MeanSquaredError{};
  return {
      {"Lenet", describe_model({.hidden = {12}}, {1, 8, 8}, 4), true, 1e-3},
      {"LenetWithBatchNorm", describe_model({.hidden = {12}, .batch_norm = true}, {1, 8, 8}, 4), true, 1e-3},
      {"Smoothed", describe_model({.name = "mlp", .label_smoothing = 0.1}, {1, 8, 8}, 4)},
      {"Regression", regression},
      {"Tangled", tangled()},
      {"Rearranging", rearranging()},
      {"Gpt", describe_model(gpt, {8}, 11)},
      {"GptUntied", describe_model(untied, {8}, 11)},
      {"GptWithDropout", describe_model(dropping, {8}, 11)},
      {"GptLlama", describe_model(llama, {8}, 11)},
      {"Vit", describe_model({.name = "vit", .layers = 2, .width = 24, .heads = 3, .patch = 4}, {3, 8, 8}, 5)},
      {"GptDivided", divide(describe_model(dropping, {8}, 11), 4)},
      {"GptLlamaDivided", divide(describe_model(llama, {8}, 11), 2)},
      {"Resnet18", describe_model({.name = "resnet18"}, {3, 8, 8}, 4), false},
  };
}

/// Residual blocks that start small: in a deep network some ReLU is else so near to 0 that rounding decides.
void calm(BoundNetwork& bound) {
  for (const auto& view : bound.tensors.layout.tensors())
    if (view.name.starts_with("layer") && view.name.ends_with(".bn2.weight"))
      std::fill_n(bound.parameters.begin() + static_cast<std::ptrdiff_t>(view.offset), view.count, 0.1f);
  bound.load();
}

/// Where there is no GPU.
void skip_without(const std::string& backend) {
  try {
    kernels::make_backend({.backend = backend});
  } catch (const kernels::BackendUnavailable& error) {
    if (backend != "cuda") throw;
    GTEST_SKIP() << error.what();
  }
}

class NetworkOn : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {
 protected:
  void SetUp() override {
    skip_without(backend());
    if (IsSkipped()) return;
    bound_ = std::make_unique<BoundNetwork>(backend(), small().model, 4);
    if (!small().smooth) calm(*bound_);
  }
  static std::string backend() { return std::get<0>(GetParam()); }
  static Small small() { return small_models().at(std::get<1>(GetParam())); }

  std::unique_ptr<BoundNetwork> bound_;
};

/// Along the gradient itself the loss must rise by the gradient's length: by four points, tensor by tensor.
TEST_P(NetworkOn, GradientsAgreeWithFiniteDifferences) {
  if (!small().smooth) GTEST_SKIP() << "too deep and kinked: compared with the reference and with PyTorch instead";
  const auto gradients = bound_->run();
  const auto start = bound_->parameters;
  const double h = small().step;
  for (const auto& view : bound_->tensors.layout.tensors()) {
    if (view.role == tensor::Role::statistic) continue;
    double length = 0;
    for (std::size_t i = view.offset; i < view.offset + view.count; ++i) length += double{gradients[i]} * gradients[i];
    length = std::sqrt(length);
    ASSERT_GT(length, 0) << view.name;
    auto moved = [&](double distance) {
      for (std::size_t i = view.offset; i < view.offset + view.count; ++i)
        bound_->parameters[i] = start[i] + static_cast<float>(distance * gradients[i] / length);
      bound_->load();
      return bound_->loss();
    };
    const double slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
    moved(0);
    EXPECT_NEAR(length, slope, 2e-3 + 0.02 * length) << view.name;
  }
}

TEST_P(NetworkOn, RepeatsTheSameBits) {
  BoundNetwork other(backend(), small().model, 4);
  if (!small().smooth) calm(other);
  const auto first = bound_->run();
  for (int run = 0; run < 4; ++run) EXPECT_EQ(first, other.run()) << run << ": from the second on a GPU replays";
}

TEST_P(NetworkOn, RecomputesActivationsWithTheSameBits) {
  for (const char* precision : {"fp32", "bf16"}) {
    BoundNetwork keeps(backend(), small().model, 4, precision);
    BoundNetwork recomputes(backend(), small().model, 4, precision, Network::Activations::recomputed);
    for (std::uint64_t microbatch = 0; microbatch < 3; ++microbatch) {  // from the second on a GPU replays
      for (auto* bound : {&keeps, &recomputes}) bound->backend->set_rng_key({7, microbatch});
      EXPECT_EQ(keeps.run(), recomputes.run()) << precision << ", " << microbatch;
      EXPECT_EQ(keeps.network.evaluate().loss, recomputes.network.evaluate().loss);
      if (head_slices(keeps.model) > 0) continue;
      EXPECT_EQ(keeps.network.logits(), recomputes.network.logits());
    }
  }
}

TEST_P(NetworkOn, TellsWhichGradientsAreFinalAndNeverChangesThemAfterwards) {
  const auto places = bound_->network.places();
  ASSERT_EQ(places.front(), bound_->tensors.layout.size());
  ASSERT_EQ(places.back(), 0u);
  EXPECT_TRUE(std::is_sorted(places.rbegin(), places.rend()));
  for (std::size_t i = 1; i + 1 < places.size(); ++i)
    EXPECT_TRUE(std::ranges::any_of(bound_->tensors.layout.tensors(), [&](const auto& view) {
      return view.offset == places[i];
    })) << places[i];
  const auto expected = bound_->run();
  if (!bound_->backend->memory_is_host()) return;  // a pass is recorded as a whole there
  auto* const arena = static_cast<float*>(bound_->gradients.data());
  std::fill_n(arena, bound_->network.gradient_count(), std::nanf(""));
  for (const auto& view : bound_->tensors.layout.tensors()) std::fill_n(arena + view.offset, view.count, 7.0f);
  std::vector<std::size_t> told;
  bound_->network.forward_backward(arena, 1.0f, [&](std::size_t place) {
    const std::size_t end = told.empty() ? bound_->network.gradient_count() : told.back();
    for (const auto& view : bound_->tensors.layout.tensors()) {
      if (view.offset < place || view.offset >= end) continue;
      EXPECT_TRUE(std::equal(arena + view.offset, arena + view.offset + view.count, expected.data() + view.offset))
          << view.name;
    }
    EXPECT_TRUE(!told.empty() || std::equal(arena + place, arena + end, expected.data() + place)) << "the totals";
    told.push_back(place);
  });
  EXPECT_EQ(told, places);
  for (const auto& view : bound_->tensors.layout.tensors())
    EXPECT_TRUE(std::equal(arena + view.offset, arena + view.offset + view.count, expected.data() + view.offset))
        << view.name;
}

TEST_P(NetworkOn, ReadsParametersThatWereChanged) {
  for (const char* precision : {"fp32", "bf16"}) {  // the latter reads copies
    BoundNetwork changed(backend(), small().model, 4, precision), other(backend(), small().model, 4, precision);
    if (!small().smooth) calm(changed), calm(other);
    kernels::Backend& device = *changed.backend;
    const std::vector<float> more(other.parameters.size(), 0.01f);
    const tensor::Buffer addend = device.allocate(more.size() * sizeof(float));
    device.copy_from_host(addend.data(), more.data(), addend.bytes());
    for (int change = 0; change < 4; ++change) {  // from the second on a GPU replays
      changed.network.change_parameters([&] {
        device.add(static_cast<float*>(changed.device_parameters.data()), static_cast<const float*>(addend.data()),
                   more.size());
      });
      for (float& parameter : other.parameters) parameter += 0.01f;
      other.load();
      EXPECT_EQ(changed.run(), other.run()) << precision << ", " << change;
    }
  }
}

TEST_P(NetworkOn, AgreesWithTheReference) {
  if (backend() == "reference") GTEST_SKIP() << "it is the reference";
  BoundNetwork reference("reference", small().model, 4);
  if (!small().smooth) calm(reference);
  const auto actual = bound_->run(), expected = reference.run();
  for (const auto& view : bound_->tensors.layout.tensors()) {
    double apart = 0, length = 1e-4;  // some are zero but for rounding: a bias before a batch norm
    for (std::size_t i = view.offset; i < view.offset + view.count; ++i) {
      apart += (double{actual[i]} - expected[i]) * (double{actual[i]} - expected[i]);
      length += double{expected[i]} * expected[i];
    }
    // One ReLU that rounding tips the other way is a few percent of a small gradient.
    EXPECT_LE(std::sqrt(apart / length), small().smooth ? 1e-3 : 5e-2) << view.name;
  }
  const std::size_t at = bound_->tensors.layout.size() + Network::kLossAt;
  EXPECT_NEAR(actual[at], expected[at], 1e-4 * expected[at]);
  const Totals evaluated = bound_->network.evaluate(), wanted = reference.network.evaluate();
  EXPECT_NEAR(evaluated.loss, wanted.loss, 1e-4 * wanted.loss);
  EXPECT_EQ(evaluated.correct, wanted.correct);
  EXPECT_EQ(evaluated.count, wanted.count);
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<std::string, std::size_t>>& info) {
  return small_models().at(std::get<1>(info.param)).name + "_" + std::get<0>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Backends, NetworkOn,
                         ::testing::Combine(::testing::Values("reference", "onednn", "cuda"),
                                            ::testing::Range(std::size_t{0}, small_models().size())),
                         name_of);

/// With activations of 16 bits the loss and the direction of the gradient are those of floats, but for their rounding.
class ShortNetwork : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void SetUp() override { skip_without(std::get<0>(GetParam())); }
};

TEST_P(ShortNetwork, HasTheLossAndGradientOfFloats) {
  const auto [name, precision] = GetParam();
  for (const Small& small : small_models()) {
    SCOPED_TRACE(small.name);
    if (!small.smooth && name == "reference") continue;  // takes seconds
    BoundNetwork reference(name, small.model, 4), bound(name, small.model, 4, precision);
    if (!small.smooth) calm(reference), calm(bound);
    const auto actual = bound.run(), expected = reference.run();
    const std::size_t at = bound.tensors.layout.size() + Network::kLossAt;
    EXPECT_NEAR(actual[at], expected[at], 0.01 * expected[at]);
    double product = 0, squares = 0, wanted = 0;
    for (const auto& view : bound.tensors.layout.tensors())
      for (std::size_t i = view.offset; i < view.offset + view.count; ++i) {
        product += double{actual[i]} * expected[i];
        squares += double{actual[i]} * actual[i];
        wanted += double{expected[i]} * expected[i];
      }
    EXPECT_GT(product / std::sqrt(squares * wanted), small.smooth ? 0.995 : 0.95);
    EXPECT_NEAR(std::sqrt(squares / wanted), 1, small.smooth ? 0.02 : 0.1);
    const Totals evaluated = bound.network.evaluate();
    EXPECT_NEAR(evaluated.loss, reference.network.evaluate().loss, 0.01 * evaluated.loss);
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShortNetwork,
                         ::testing::Combine(::testing::Values("reference", "onednn", "cuda"),
                                            ::testing::Values("bf16", "fp16")),
                         [](const auto& its) { return std::get<0>(its.param) + "_" + std::get<1>(its.param); });

class DroppingNetwork : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { skip_without(GetParam()); }
};

TEST_P(DroppingNetwork, DropsOthersInTheNextMicrobatchAndNothingWhenEvaluated) {
  const Options options{.name = "gpt", .layers = 1, .width = 16, .heads = 2, .context = 8, .dropout = 0.3};
  BoundNetwork bound(GetParam(), describe_model(options, {8}, 11), 2);
  bound.backend->set_rng_key({7, 1});
  const double first = bound.loss();
  bound.backend->set_rng_key({7, 2});
  EXPECT_NE(bound.loss(), first);
  bound.backend->set_rng_key({7, 1});
  EXPECT_EQ(bound.loss(), first);
  const double evaluated = bound.network.evaluate().loss;
  bound.backend->set_rng_key({8, 1});
  EXPECT_EQ(bound.network.evaluate().loss, evaluated);
}

INSTANTIATE_TEST_SUITE_P(Backends, DroppingNetwork, ::testing::Values("reference", "cuda"),
                         [](const auto& backend) { return backend.param; });
}  // namespace
}  // namespace distdl::model
