// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::test {
namespace {
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

class Layers : public EachBackend {};

TEST_P(Layers, MaxPoolGivesTheGradientToTheFirstOfEqualValues) {
  LayerRun run(*backend_, {MaxPool2d{2, 2}}, {1, 1, 4, 4});
  EXPECT_THAT(run.forward({5, 5, 1, 2,    //
                           5, 5, 2, 2,    //
                           0, 0, -1, -3,  //
                           0, 7, -1, -1}),
              ElementsAre(5, 2, 7, -1));
  EXPECT_THAT(run.backward({10, 20, 30, 40}), ElementsAre(10, 0, 0, 20,  //
                                                          0, 0, 0, 0,    //
                                                          0, 0, 40, 0,   //
                                                          0, 30, 0, 0));
}

TEST_P(Layers, OverlappingMaxPoolAddsGradients) {
  LayerRun run(*backend_, {MaxPool2d{2, 1}}, {1, 1, 2, 3});
  EXPECT_THAT(run.forward({0, 9, 0, 0, 0, 0}), ElementsAre(9, 9));
  EXPECT_THAT(run.backward({1, 2}), ElementsAre(0, 3, 0, 0, 0, 0));
}

TEST_P(Layers, MaxPoolAfterConvolutionPrefersTheFirstOfEqualValues) {
  // A convolution of zeros with a bias makes every value equal, in whatever format the backend likes.
  LayerRun run(*backend_, {Conv2d{.out = 17, .kernel = 1}, MaxPool2d{2, 2}}, {1, 1, 2, 2});
  run.set_parameters(0, {Values(17, 1.0f), Values(17, 0.5f)});
  EXPECT_THAT(run.forward({0, 0, 0, 0}), Pointwise(FloatNear(0), Values(17, 0.5f)));
  EXPECT_THAT(run.backward(Values(17, 1.0f)), ElementsAre(17, 0, 0, 0));
}

TEST_P(Layers, ReluHasNoGradientAtZeroAndKeepsNaN) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  LayerRun run(*backend_, {Relu{}}, {1, 4});
  Values y = run.forward({0, -1, 2, nan});
  EXPECT_THAT(Values(y.begin(), y.begin() + 3), ElementsAre(0, 0, 2));
  EXPECT_TRUE(std::isnan(y[3]));
  run.forward({0, -1, 2, 3});
  EXPECT_THAT(run.backward({5, 6, 7, 8}), ElementsAre(0, 0, 7, 8));
}

TEST_P(Layers, ReluAfterAnotherLayerKeepsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Phase phases[]{Phase::training, Phase::evaluation};
  for (const Phase phase : phases) {
    // 17 channels: some backends fill up a block.
    LayerRun norm(*backend_, {Conv2d{.out = 17, .kernel = 1}, BatchNorm{}, Relu{}}, {1, 1, 2, 2});
    norm.set_parameters(0, {Values(17, 1.0f), Values(17, 0.0f)});
    norm.set_parameters(1, {Values(17, 1.0f), Values(17, 0.0f), Values(17, 0.0f), Values(17, 1.0f)});
    EXPECT_TRUE(std::isnan(norm.forward({1, nan, 2, 3}, phase)[1]));
    const Values sound = norm.forward({1, -1, 2, 3}, phase);
    EXPECT_GE(*std::min_element(sound.begin(), sound.end()), 0);
    for (const LayerSpec& first : {LayerSpec(Linear{2}), LayerSpec(Conv2d{.out = 2, .kernel = 1})}) {
      LayerRun run(*backend_, {first, Relu{}}, {1, 1, 1, 1});
      run.set_parameters(0, {{1, -1}, {0, 0}});
      const Values y = run.forward({nan}, phase);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
    }
  }
}

TEST_P(Layers, LinearFlattensImagesByChannelThenRow) {
  LayerRun run(*backend_, {Linear{1}}, {1, 2, 2, 3});
  Values weight(12);
  for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = std::ldexp(1.0f, static_cast<int>(i));
  run.set_parameters(0, {weight, {0.25f}});
  EXPECT_THAT(run.forward({1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1}), ElementsAre(1 + 16 + 256 + 2048 + 0.25f));
}

TEST_P(Layers, BatchNormTrainsOnTheMicrobatchAndReportsItsStatistics) {
  LayerRun run(*backend_, {BatchNorm{1e-5f}}, {4, 1});
  run.set_parameters(0, {{2}, {1}, {100}, {50}});
  Values y = run.forward({1, 2, 3, 6});  // mean 3, biased variance 3.5
  double s = 2 / std::sqrt(3.5 + 1e-5);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], 1 + s * (Values{1, 2, 3, 6}[i] - 3), 1e-5);
  run.backward({1, 0, 0, 0});
  auto gradients = run.parameter_gradients(0);
  EXPECT_NEAR(gradients[1][0], 1, 1e-6);
  EXPECT_NEAR(gradients[2][0], 3, 1e-6);
  EXPECT_NEAR(gradients[3][0], 14.0 / 3, 1e-5);  // unbiased
}

TEST_P(Layers, BatchNormEvaluatesWithTheRunningStatistics) {
  LayerRun run(*backend_, {BatchNorm{1e-5f}}, {2, 2});
  run.set_parameters(0, {{2, 1}, {1, 0}, {3, -1}, {4, 0.25f}});
  Values y = run.forward({5, 0, 3, -1}, Phase::evaluation);
  EXPECT_THAT(y, Pointwise(FloatNear(1e-4f), Values{3, 2, 1, 0}));
}

TEST_P(Layers, BatchNormOfASingleValueIsItsBias) {
  LayerRun run(*backend_, {BatchNorm{}}, {1, 2});
  run.set_parameters(0, {{2, 3}, {0.5f, -1}, {0, 0}, {1, 1}});
  EXPECT_THAT(run.forward({7, 8}), ElementsAre(0.5f, -1));
  EXPECT_THAT(run.backward({1, 1}), ElementsAre(0, 0));
  EXPECT_THAT(run.parameter_gradients(0)[3], ElementsAre(0, 0));
}

TEST_P(Layers, FollowAChangeOfParameters) {
  LayerRun run(*backend_, {Conv2d{.out = 1, .kernel = 1}}, {1, 1, 1, 2});
  run.set_parameters(0, {{2}, {0}});
  EXPECT_THAT(run.forward({1, 2}), ElementsAre(2, 4));
  run.set_parameters(0, {{3}, {1}});
  EXPECT_THAT(run.forward({1, 2}), ElementsAre(4, 7));
  EXPECT_THAT(run.backward({1, 1}), ElementsAre(3, 3));
}

TEST_P(Layers, RefuseAnInputThatDoesNotFit) {
  EXPECT_THROW(backend_->layer(Conv2d{.out = 4, .kernel = 5}, dense({1, 1, 4, 4})), ConfigError);
  EXPECT_THROW(backend_->layer(MaxPool2d{}, dense({4, 4})), ConfigError);
}

TEST_P(Layers, ActivationsSurviveTheWayToDenseAndBack) {
  auto layer = backend_->layer(Conv2d{.out = 18, .kernel = 3, .padding = 1}, dense({2, 3, 5, 4}));
  const ActivationFormat& format = layer->output();
  Values values = random_values(tensor::element_count(format.shape), 9), back(values.size());
  std::size_t bytes = values.size() * sizeof(float);
  auto given = backend_->allocate(bytes), own = backend_->allocate(format.bytes), again = backend_->allocate(bytes);
  backend_->copy_from_host(given.data(), values.data(), bytes);
  backend_->from_dense(format, given.as<float>().data(), own.as<float>().data());
  backend_->to_dense(format, own.as<float>().data(), again.as<float>().data());
  backend_->copy_to_host(back.data(), again.data(), bytes);
  EXPECT_EQ(back, values);
}

TEST_P(Layers, OutputsOfEqualLayersHaveTheSameLayout) {
  const auto convolution = [&](std::int64_t channels, const tensor::Shape& input) {
    return backend_->layer(Conv2d{.out = channels, .kernel = 3, .padding = 1}, dense(input))->output();
  };
  const ActivationFormat one = convolution(32, {2, 3, 6, 6}), equal = convolution(32, {2, 3, 6, 6});
  ActivationFormat of_other_type = equal;
  of_other_type.type = tensor::DataType::bfloat16;
  EXPECT_TRUE(backend_->same_layout(one, one));
  EXPECT_TRUE(backend_->same_layout(one, equal));
  EXPECT_TRUE(backend_->same_layout(dense(one.shape), dense(one.shape)));
  EXPECT_EQ(backend_->same_layout(one, dense(one.shape)), one.layout == nullptr);
  EXPECT_EQ(backend_->same_layout(dense(one.shape), one), one.layout == nullptr);
  EXPECT_FALSE(backend_->same_layout(one, of_other_type));
  EXPECT_FALSE(backend_->same_layout(one, convolution(16, {2, 3, 6, 6})));
}

DISTDL_ON_EACH_BACKEND(Layers);

/// Layers that not every backend has yet.
class SequenceLayers : public EachBackend {
 protected:
  void SetUp() override {
    EachBackend::SetUp();
    if (IsSkipped()) return;
    try {
      backend_->layer(Dropout{}, dense({4, 4}));
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_P(SequenceLayers, DropoutKeepsItsShareAndTheMeanAndDropsTheSameGradients) {
  constexpr std::int64_t kCount = 40000;
  backend_->set_rng_key({11, 3});
  LayerRun run(*backend_, {Dropout{.probability = 0.3f, .stream = 2}}, {100, kCount / 100});
  const Values ones(kCount, 1.0f);
  const Values y = run.forward(ones);
  double sum = 0;
  for (float value : y) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.7f) << value;
    sum += value;
  }
  EXPECT_NEAR(sum / kCount, 1, 0.015);  // four deviations are 0.013
  EXPECT_EQ(run.backward(ones), y);
  EXPECT_EQ(run.forward(ones, Phase::evaluation), ones);
}

TEST_P(SequenceLayers, DropoutDrawsByMicrobatchAndStreamTheSameOnEveryBackend) {
  auto reference = make_backend({.backend = "reference"});
  auto drawn = [](Backend& backend, const RngKey& rng_key, std::uint32_t stream) {
    backend.set_rng_key(rng_key);
    return LayerRun(backend, {Dropout{.probability = 0.5f, .stream = stream}}, {7, 11}).forward(Values(77, 1.0f));
  };
  const Values first = drawn(*backend_, {5, 1}, 0);
  EXPECT_EQ(first, drawn(*reference, {5, 1}, 0));
  EXPECT_EQ(first, drawn(*backend_, {5, 1}, 0));
  EXPECT_NE(first, drawn(*backend_, {5, 2}, 0));
  EXPECT_NE(first, drawn(*backend_, {6, 1}, 0));
  EXPECT_NE(first, drawn(*backend_, {5, 1}, 1));
}

TEST_P(SequenceLayers, CausalAttentionDoesNotSeeWhatComesLater) {
  const tensor::Shape shape{1, 70, 3 * 2 * 4};
  LayerRun run(*backend_, {Attention{.heads = 2}}, shape);
  Values x = random_values(tensor::element_count(shape), 1);
  const Values before = run.forward(x);
  for (std::size_t i = 66 * 24; i < x.size(); ++i) x[i] = 50;
  const Values after = run.forward(x);
  for (std::size_t i = 0; i < 66 * 8; ++i) ASSERT_EQ(after[i], before[i]) << i;
  EXPECT_NE(after[66 * 8], before[66 * 8]);
}

/// Queries, keys and values of sequences as those of their last `queries` places, with all keys before.
Values joined(const Values& x, std::int64_t samples, std::int64_t places, std::int64_t queries, std::int64_t query_row,
              std::int64_t row) {
  Values result;
  for (std::int64_t n = 0; n < samples; ++n) {
    const auto sample = x.begin() + n * places * row;
    for (std::int64_t t = places - queries; t < places; ++t)
      result.insert(result.end(), sample + t * row, sample + t * row + query_row);
    for (std::int64_t t = 0; t < places; ++t)
      result.insert(result.end(), sample + t * row + query_row, sample + (t + 1) * row);
  }
  return result;
}

TEST_P(SequenceLayers, AttentionOfTheLastPlacesIsThatOfTheWholeSequence) {
  constexpr std::int64_t kSamples = 2, kPlaces = 90, kQueries = 70, kQueryRow = 4 * 6, kRow = (4 + 4) * 6;
  const Attention whole{.heads = 4, .kv_heads = 2, .rotary_base = 10000};
  Attention last = whole;
  last.queries = kQueries;
  last.before = kPlaces - kQueries;
  const Values x = random_values(kSamples * kPlaces * kRow, 1);
  LayerRun all(*backend_, {whole}, {kSamples, kPlaces, kRow});
  LayerRun some(*backend_, {last}, {kSamples, kQueries * kQueryRow + kPlaces * (kRow - kQueryRow)});
  const Values expected = all.forward(x), found = some.forward(joined(x, kSamples, kPlaces, kQueries, kQueryRow, kRow));
  Values dy = random_values(kSamples * kPlaces * kQueryRow, 2), some_dy;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const auto begin = n * kPlaces * kQueryRow, from = begin + (kPlaces - kQueries) * kQueryRow;
    std::fill(dy.begin() + begin, dy.begin() + from, 0.0f);  // of queries that are not there
    some_dy.insert(some_dy.end(), dy.begin() + from, dy.begin() + begin + kPlaces * kQueryRow);
    for (std::int64_t i = 0; i < kQueries * kQueryRow; ++i)
      ASSERT_NEAR(found[n * kQueries * kQueryRow + i], expected[from + i], 1e-5) << i;
  }
  const Values dx = joined(all.backward(dy), kSamples, kPlaces, kQueries, kQueryRow, kRow);
  const Values some_dx = some.backward(some_dy);
  ASSERT_EQ(some_dx.size(), dx.size());
  for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(some_dx[i], dx[i], 1e-5) << i;
}

TEST_P(SequenceLayers, AChunkHasTheDropoutOfItsPlaces) {
  LayerRun whole(*backend_, {Dropout{.probability = 0.5f, .stream = 3}}, {2, 7, 3});
  LayerRun chunk(*backend_, {Dropout{.probability = 0.5f, .stream = 3, .first = 2, .all = 7}}, {2, 4, 3});
  const Values all = whole.forward(Values(2 * 7 * 3, 1)), some = chunk.forward(Values(2 * 4 * 3, 1));
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], all[i / 12 * 21 + 6 + i % 12]) << i;
}

TEST_P(SequenceLayers, ASliceOfRowsHasTheDropoutAndThePositionsOfItsPlaces) {
  const std::int64_t samples = 3, places = 4, width = 3;
  for (const auto& [first, all] : {std::pair(0, 0), {2, 7}}) {
    const Dropout dropout{.probability = 0.5f, .stream = 3, .first = first, .all = all};
    const PositionEmbedding position{.places = 7, .first = first};
    LayerRun whole(*backend_, {dropout, position}, {samples, places, width});
    const Values table = random_values(7 * width, 4), x = random_values(samples * places * width, 5);
    whole.set_parameters(1, {table});
    const Values y = whole.forward(x), dx = whole.backward(x);
    for (const std::int64_t row : {0, 3, 5, 9}) {
      Dropout some_dropout = dropout;
      PositionEmbedding some_position = position;
      some_dropout.rows = some_position.rows = {row, places};
      const std::int64_t rows = std::min<std::int64_t>(6, samples * places - row);
      LayerRun some(*backend_, {some_dropout, some_position}, {rows, width});
      some.set_parameters(1, {table});
      const auto own = [&](const Values& values) {
        return Values(values.begin() + row * width, values.begin() + (row + rows) * width);
      };
      EXPECT_EQ(some.forward(own(x)), own(y)) << row;
      EXPECT_EQ(some.backward(own(x)), own(dx)) << row;
      if (row > 0) continue;
      Values expected(7 * width, 0.0f);
      for (std::int64_t i = 0; i < rows * width; ++i) expected[first * width + i % (places * width)] += x[i];
      EXPECT_EQ(some.parameter_gradients(1).front(), expected);
    }
  }
}

TEST_P(SequenceLayers, AttentionStaysFiniteForLargeScores) {
  LayerRun run(*backend_, {Attention{.heads = 1}}, {1, 3, 3});
  // Queries and keys of 200 and -200: each place sees the largest alone, whose value is 2 for the last two.
  const Values y = run.forward({200, -200, 1, 200, 200, 2, 200, -200, 3});
  EXPECT_THAT(y, ElementsAre(1, 2, 2));
  for (float value : run.backward({1, 1, 1})) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(SequenceLayers, RotaryScoresDependOnTheDistanceOnly) {
  // One head of two values: the same query and key everywhere, so that place t sees t - s through the angle alone.
  LayerRun run(*backend_, {Attention{.heads = 1, .causal = true, .rotary_base = 10000}}, {1, 2, 6});
  const Values y = run.forward({1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0});
  const double near = std::exp(1 / std::sqrt(2.0)), far = std::exp(std::cos(1.0) / std::sqrt(2.0));
  EXPECT_NEAR(y[2], near / (near + far), 1e-6);
}

/// What an embedding of width 2 puts out for four tokens, and the gradients of its rows.
struct Embedded {
  Values out, gradients;
};

Embedded embedded(Backend& backend, const Embedding& spec, const Values& rows) {
  auto layer = backend.layer(spec, dense({1, 4}));
  auto filled = [&](const auto& values) {
    auto buffer = backend.allocate(values.size() * 4);
    backend.copy_from_host(buffer.data(), values.data(), values.size() * 4);
    return buffer;
  };
  auto floats = [](const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); };
  auto table = filled(rows), tokens = filled(std::vector<std::int32_t>{2, 0, 2, 2}),
       dy = filled(Values{1, 10, 2, 20, 3, 30, 4, 40}), y = filled(Values(8)),
       gradient = filled(Values(rows.size(), 9.0f));
  const float* parameters[] = {floats(table)};
  float* gradients[] = {floats(gradient)};
  layer->load_parameters(parameters);
  layer->forward(floats(tokens), floats(y), Phase::training);
  layer->backward_weights(floats(tokens), floats(dy), gradients);
  Embedded result{Values(8), Values(rows.size())};
  backend.copy_to_host(result.out.data(), y.data(), y.bytes());
  backend.copy_to_host(result.gradients.data(), gradient.data(), gradient.bytes());
  return result;
}

TEST_P(SequenceLayers, EmbeddingAddsTheGradientsOfEqualTokens) {
  const auto [out, gradients] = embedded(*backend_, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(out, ElementsAre(5, 6, 1, 2, 5, 6, 5, 6));
  EXPECT_THAT(gradients, ElementsAre(2, 20, 0, 0, 8, 80));
}

TEST_P(SequenceLayers, EmbeddingOfASliceHasZerosForOtherTokens) {
  const auto [out, gradients] = embedded(*backend_, {.entries = 2, .width = 2, .first = 1, .all = 3}, {3, 4, 5, 6});
  EXPECT_THAT(out, ElementsAre(5, 6, 0, 0, 5, 6, 5, 6));
  EXPECT_THAT(gradients, ElementsAre(0, 0, 8, 80));
}

DISTDL_ON_EACH_BACKEND(SequenceLayers);

/// Else its own copy would be that of its last load_parameters().
TEST(LinearLayers, ThatShareParametersUseOneRepackedCopy) {
  std::string reason;
  const auto backend = try_backend("onednn", reason, "bf16");
  if (!backend) GTEST_SKIP() << reason;
  const auto type = backend->activation_type();
  const auto one = backend->layer(Linear{.out = 2, .bias = false}, dense({1, 2}, type));
  const auto other = backend->layer(Linear{.out = 2, .bias = false}, dense({1, 2}, type));
  other->share_parameters(*one);
  std::vector<float> weights{1, 2, 3, 4};
  const float* parameters[] = {weights.data()};
  one->load_parameters(parameters);
  other->load_parameters(parameters);
  weights = {5, 6, 7, 8};
  one->load_parameters(parameters);
  const auto x = backend->allocate(2 * sizeof(float)), y = backend->allocate(2 * sizeof(float)),
             sums = backend->allocate(2 * sizeof(float));
  const Values ones(2, 1.0f);
  backend->from_dense(dense({1, 2}, type), ones.data(), x.data());
  other->forward(x.data(), y.data(), Phase::training);
  backend->to_dense(other->output(), y.data(), static_cast<float*>(sums.data()));
  EXPECT_THAT((std::span(static_cast<const float*>(sums.data()), 2)), ElementsAre(11, 15));
}
}  // namespace
}  // namespace distdl::kernels::test
