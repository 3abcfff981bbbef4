// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "tests/kernels/each_backend.hpp"
#include "tests/kernels/layer_run.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::kernels::test {
namespace {
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

struct Result {
  std::array<float, 3> totals;
  Values gradient;
};

class Losses : public EachBackend {
 protected:
  template <class Target>
  Result run(Loss& loss, const Values& predictions, const std::vector<Target>& targets, float scale,
             bool want_gradient = true) {
    std::size_t bytes = predictions.size() * sizeof(float);
    auto x = backend_->allocate(bytes), dx = backend_->allocate(bytes), totals = backend_->allocate(3 * sizeof(float)),
         y = backend_->allocate(targets.size() * sizeof(Target));
    backend_->copy_from_host(x.data(), predictions.data(), bytes);
    backend_->copy_from_host(y.data(), targets.data(), targets.size() * sizeof(Target));
    loss.forward_backward(x.as<float>().data(), y.data(), scale, want_gradient ? dx.as<float>().data() : nullptr,
                          totals.as<float>().data());
    Result result{{}, Values(predictions.size())};
    backend_->copy_to_host(result.totals.data(), totals.data(), 3 * sizeof(float));
    backend_->copy_to_host(result.gradient.data(), dx.data(), bytes);
    return result;
  }
};

class SoftmaxLoss : public Losses {
 protected:
  Result run(const tensor::Shape& shape, const Values& logits, const std::vector<std::int32_t>& labels, float scale,
             bool want_gradient = true) {
    return Losses::run(*backend_->loss(CrossEntropy{}, dense(shape)), logits, labels, scale, want_gradient);
  }
};

TEST_P(SoftmaxLoss, OfEqualLogitsIsLogOfTheClasses) {
  auto result = run({2, 4}, Values(8, 3.0f), {0, 1}, 0.5f);
  EXPECT_NEAR(result.totals[0], 2 * std::log(4.0), 1e-6);
  EXPECT_EQ(result.totals[1], 1);  // the first of equal logits counts as the answer
  EXPECT_THAT(result.gradient, Pointwise(FloatNear(1e-7f), Values{-0.375f, 0.125f, 0.125f, 0.125f,  //
                                                                  0.125f, -0.375f, 0.125f, 0.125f}));
}

TEST_P(SoftmaxLoss, StaysFiniteForLargeLogits) {
  auto result = run({2, 3}, {1e4f, -1e4f, 0, -3e4f, 0, 3e4f}, {0, 1}, 1);
  EXPECT_FLOAT_EQ(result.totals[0], 3e4f);
  EXPECT_EQ(result.totals[1], 1);
  EXPECT_THAT(result.gradient, ElementsAre(0, 0, 0, 0, -1, 1));
}

TEST_P(SoftmaxLoss, GradientAgreesWithFiniteDifferences) {
  Values logits = random_values(5 * 7, 1);
  std::vector<std::int32_t> labels{0, 6, 3, 3, 1};
  Values gradient = run({5, 7}, logits, labels, 1).gradient;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    Values up = logits, down = logits;
    up[i] += 0.01f, down[i] -= 0.01f;
    // The loss of one sample at a time: a sum over all has too few digits left.
    std::int64_t sample = static_cast<std::int64_t>(i) / 7;
    auto one = [&](const Values& all) {
      Values row(all.begin() + sample * 7, all.begin() + sample * 7 + 7);
      return double{run({1, 7}, row, {labels[sample]}, 1).totals[0]};
    };
    EXPECT_NEAR(gradient[i], (one(up) - one(down)) / 0.02, 2e-4) << i;
  }
}

TEST_P(SoftmaxLoss, WritesNoGradientWhereNoneIsWanted) {
  auto result = run({1, 2}, {1, 2}, {1}, 1, false);
  EXPECT_NEAR(result.totals[0], std::log(1 + std::exp(-1.0)), 1e-6);
  EXPECT_THAT(result.gradient, ElementsAre(0, 0));
}

DISTDL_ON_EACH_BACKEND(SoftmaxLoss);

TEST_P(Losses, SmoothedTargetsAreSpreadOverAllClasses) {
  auto loss = backend_->loss(CrossEntropy{.smoothing = 0.2f}, dense({1, 4}));
  const Values logits{1, 2, 0, -1};
  auto result = run(*loss, logits, std::vector{1}, 1);
  const double sum = std::exp(1.0) + std::exp(2.0) + 1 + std::exp(-1.0);
  double expected = 0;
  for (int c = 0; c < 4; ++c) {
    const double target = c == 1 ? 0.8 + 0.05 : 0.05;
    expected -= target * (logits[c] - std::log(sum));
    EXPECT_NEAR(result.gradient[c], std::exp(logits[c]) / sum - target, 1e-6);
  }
  EXPECT_NEAR(result.totals[0], expected, 1e-6);
  EXPECT_EQ(result.totals[1], 1);
}

TEST_P(Losses, MixedTargetsAreTheMeanOfBothByTheirShares) {
  const Values logits = random_values(4 * 7, 3);
  const std::vector<std::int32_t> first{0, 6, 3, 2}, second{5, 6, 1, 4};
  const std::vector<float> shares{0.25f, 0.4f, 1, 0};
  std::vector<std::int32_t> mixed = first;
  mixed.insert(mixed.end(), second.begin(), second.end());
  for (const float share : shares) mixed.push_back(std::bit_cast<std::int32_t>(share));
  for (const float smoothing : {0.0f, 0.2f}) {
    const CrossEntropy plain{.smoothing = smoothing}, both{.smoothing = smoothing, .ignore = {}, .is_mixed = true};
    double loss = 0;
    float correct = 0;
    for (std::size_t row = 0; row < first.size(); ++row) {
      const Values own(logits.begin() + static_cast<std::ptrdiff_t>(7 * row),
                       logits.begin() + static_cast<std::ptrdiff_t>(7 * row + 7));
      const Result a = run(*backend_->loss(plain, dense({1, 7})), own, std::vector{first[row]}, 0.5f),
                   b = run(*backend_->loss(plain, dense({1, 7})), own, std::vector{second[row]}, 0.5f);
      const std::vector<std::int32_t> targets{first[row], second[row], std::bit_cast<std::int32_t>(shares[row])};
      const Result result = run(*backend_->loss(both, dense({1, 7})), own, targets, 0.5f);
      EXPECT_NEAR(result.totals[0], shares[row] * a.totals[0] + (1 - shares[row]) * b.totals[0], 1e-5);
      EXPECT_EQ(result.totals[1], shares[row] >= 0.5f ? a.totals[1] : b.totals[1]);
      for (std::size_t c = 0; c < 7; ++c)
        EXPECT_NEAR(result.gradient[c], shares[row] * a.gradient[c] + (1 - shares[row]) * b.gradient[c], 1e-6);
      if (shares[row] == 1) {
        EXPECT_EQ(result.gradient, a.gradient);
      }
      loss += result.totals[0];
      correct += result.totals[1];
    }
    const Result all = run(*backend_->loss(both, dense({4, 7})), logits, mixed, 0.5f);
    EXPECT_NEAR(all.totals[0], loss, 1e-5);
    EXPECT_EQ(all.totals[1], correct);
    EXPECT_EQ(all.totals[2], 4);
  }
}

TEST_P(Losses, MixedTargetsAreCheckedBoth) {
  auto loss = backend_->loss(CrossEntropy{.is_mixed = true}, dense({1, 2}));
  EXPECT_THROW(run(*loss, Values{1, 2}, std::vector{1, 2, std::bit_cast<std::int32_t>(0.5f)}, 1), ConfigError);
}

TEST_P(Losses, RowsOfASequenceCountOneByOneAndIgnoredOnesNotAtAll) {
  auto loss = backend_->loss(CrossEntropy{.ignore = -1}, dense({2, 2, 3}));
  auto result = run(*loss, Values{5, 0, 0, 1, 1, 1, 0, 5, 0, 1, 1, 1}, std::vector{0, -1, 0, 2}, 0.5f);
  const double wide = std::exp(5.0) + 2;
  EXPECT_NEAR(result.totals[0], 2 * std::log(wide) - 5 + std::log(3.0), 1e-5);
  EXPECT_EQ(result.totals[1], 1);
  EXPECT_EQ(result.totals[2], 3);
  EXPECT_THAT(Values(result.gradient.begin() + 3, result.gradient.begin() + 6), ElementsAre(0, 0, 0));
  EXPECT_NEAR(result.gradient[6], 0.5 * (1 / wide - 1), 1e-6);
}

TEST_P(Losses, SquaredErrorIsTheMeanOverEachSample) {
  auto loss = backend_->loss(MeanSquaredError{}, dense({2, 1, 2}));
  auto result = run(*loss, Values{1, 2, 3, 4}, Values{0, 4, 3, 8}, 0.5f);
  EXPECT_THAT(result.totals, ElementsAre((1 + 4) / 2.0f + 16 / 2.0f, 0, 2));
  EXPECT_THAT(result.gradient, ElementsAre(0.5f, -1, 0, -2));
}

TEST_P(Losses, TakeImagesInWhateverFormatTheyCome) {
  auto layer = backend_->layer(Conv2d{.out = 18}, dense({2, 3, 5, 4}));
  const ActivationFormat& format = layer->output();
  auto loss = backend_->loss(MeanSquaredError{}, format);
  const std::int64_t count = tensor::element_count(format.shape);
  Values predictions = random_values(count, 1), targets = random_values(count, 2);
  const std::size_t bytes = predictions.size() * sizeof(float);
  auto given = backend_->allocate(bytes), x = backend_->allocate(format.bytes), dx = backend_->allocate(format.bytes),
       wanted = backend_->allocate(bytes), totals = backend_->allocate(3 * sizeof(float));
  backend_->copy_from_host(given.data(), predictions.data(), bytes);
  backend_->copy_from_host(wanted.data(), targets.data(), bytes);
  backend_->from_dense(format, given.as<float>().data(), x.as<float>().data());
  loss->forward_backward(x.as<float>().data(), wanted.data(), 1, dx.as<float>().data(), totals.as<float>().data());
  backend_->to_dense(format, dx.as<float>().data(), given.as<float>().data());
  Values gradient(predictions.size());
  backend_->copy_to_host(gradient.data(), given.data(), bytes);
  Result expected = run(*backend_->loss(MeanSquaredError{}, dense(format.shape)), predictions, targets, 1);
  EXPECT_EQ(gradient, expected.gradient);
}

TEST_P(Losses, TakePredictionsOf16Bits) {
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    std::string reason;
    auto backend = try_backend(GetParam(), reason, precision);
    const double rounding = precision == "bf16" ? 0x1p-8 : 0x1p-11;
    const Values logits{1.5f, -2, 0.25f, 3, 0, -1}, targets{1, 0, 2, 3, 4, 5};  // which both can say exactly
    const std::vector<std::int32_t> labels{2, 0};
    const auto check = [&](const LossSpec& spec, const void* wanted, std::size_t wanted_bytes, const Result& expected) {
      const ActivationFormat format = dense({2, 3}, backend->activation_type());
      auto given = backend->allocate(logits.size() * sizeof(float)), x = backend->allocate(format.bytes),
           dx = backend->allocate(format.bytes), totals = backend->allocate(3 * sizeof(float)),
           y = backend->allocate(wanted_bytes);
      backend->copy_from_host(given.data(), logits.data(), given.bytes());
      backend->copy_from_host(y.data(), wanted, wanted_bytes);
      backend->from_dense(format, static_cast<const float*>(given.data()), x.data());
      backend->loss(spec, format)
          ->forward_backward(x.data(), y.data(), 0.5f, dx.data(), static_cast<float*>(totals.data()));
      backend->to_dense(format, dx.data(), static_cast<float*>(given.data()));
      std::array<float, 3> host{};
      Values gradient(logits.size());
      backend->copy_to_host(host.data(), totals.data(), sizeof host);
      backend->copy_to_host(gradient.data(), given.data(), given.bytes());
      EXPECT_EQ(host, expected.totals);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        EXPECT_NEAR(gradient[i], expected.gradient[i], rounding * std::abs(expected.gradient[i]) + 1e-7);
    };
    check(CrossEntropy{}, labels.data(), labels.size() * sizeof(std::int32_t),
          run(*backend_->loss(CrossEntropy{}, dense({2, 3})), logits, labels, 0.5f));
    check(MeanSquaredError{}, targets.data(), targets.size() * sizeof(float),
          run(*backend_->loss(MeanSquaredError{}, dense({2, 3})), logits, targets, 0.5f));
  }
}

TEST_P(Losses, RefuseWhatTheyCannotCompare) {
  EXPECT_THROW(backend_->loss(CrossEntropy{.smoothing = 1}, dense({2, 3})), ConfigError);
  EXPECT_THROW(backend_->loss(CrossEntropy{}, dense({2, 3, 4, 5})), ConfigError);
}

DISTDL_ON_EACH_BACKEND(Losses);

/// The same loss, of logits that lie in slices of the classes.
class SlicedLosses : public Losses {
 protected:
  void SetUp() override {
    Losses::SetUp();
    if (!IsSkipped() && !backend_->memory_is_host()) GTEST_SKIP() << "this backend has no sliced loss";
  }

  Result run_sliced(const CrossEntropy& spec, std::int64_t classes, std::int64_t slices, const Values& logits,
                    const std::vector<std::int32_t>& labels, bool want_gradient = true) {
    const std::int64_t rows = std::ssize(labels);
    Result result{{}, Values(logits.size())};
    std::vector<std::unique_ptr<SlicedLoss>> losses;
    std::vector<Values> own(static_cast<std::size_t>(slices)), gradients = own;
    Values summaries;
    const auto first = [&](std::int64_t s) { return classes * s / slices; };
    for (std::int64_t s = 0; s < slices; ++s) {
      const std::int64_t count = first(s + 1) - first(s);
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t c = 0; c < count; ++c) own[s].push_back(logits[n * classes + first(s) + c]);
      gradients[s].resize(own[s].size());
      losses.push_back(backend_->sliced_loss(spec, dense({rows, count}), {first(s), classes, s, slices}));
      summaries.resize(losses[s]->summary_count() * static_cast<std::size_t>(slices));
    }
    for (std::int64_t s = 0; s < slices; ++s)
      losses[s]->summarize(own[s].data(), labels.data(),
                           summaries.data() + static_cast<std::size_t>(s) * losses[s]->summary_count());
    for (std::int64_t s = 0; s < slices; ++s) {
      const auto before = result.totals;
      losses[s]->forward_backward(own[s].data(), labels.data(), summaries.data(), 0.5f,
                                  want_gradient ? gradients[s].data() : nullptr, result.totals.data());
      if (s > 0) {
        EXPECT_EQ(result.totals, before) << "each slice knows the same";
      }
      const std::int64_t count = first(s + 1) - first(s);
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t c = 0; c < count; ++c)
          result.gradient[n * classes + first(s) + c] = gradients[s][n * count + c];
    }
    return result;
  }
};

TEST_P(SlicedLosses, AreThatOfWholeRows) {
  const std::int64_t rows = 5, classes = 11;
  const Values logits = random_values(rows * classes, 1);
  const std::vector<std::int32_t> labels{0, 10, -1, 3, 7};
  for (const float smoothing : {0.0f, 0.2f})
    for (const std::int64_t slices : {1, 2, 3, 4, 11}) {
      const CrossEntropy spec{.smoothing = smoothing, .ignore = -1};
      const Result expected = run(*backend_->loss(spec, dense({rows, classes})), logits, labels, 0.5f);
      const Result result = run_sliced(spec, classes, slices, logits, labels);
      EXPECT_NEAR(result.totals[0], expected.totals[0], 1e-6 * expected.totals[0]);
      EXPECT_EQ(result.totals[1], expected.totals[1]);
      EXPECT_EQ(result.totals[2], 4);
      EXPECT_THAT(result.gradient, Pointwise(FloatNear(1e-7f), expected.gradient)) << slices;
    }
}

TEST_P(SlicedLosses, OfEqualLogitsTheFirstCountsAndLargeOnesAreNoTrouble) {
  const float infinity = std::numeric_limits<float>::infinity();
  Result result = run_sliced({}, 4, 2, {3, 3, 3, 3, 3, 3, 3, 3}, {0, 2});
  EXPECT_EQ(result.totals[1], 1);
  EXPECT_NEAR(result.totals[0], 2 * std::log(4.0), 1e-6);
  result = run_sliced({}, 4, 2, {-infinity, -infinity, 0, 0, 1e4f, 0, -1e4f, -3e4f}, {3, 3});
  EXPECT_NEAR(result.totals[0], 4e4 + std::log(2.0), 0.01);
  EXPECT_THAT(result.gradient, ElementsAre(0, 0, 0.25f, -0.25f, 0.5f, 0, 0, -0.5f));
}

TEST_P(SlicedLosses, WriteNoGradientWhereNoneIsWantedAndRefuseOtherClasses) {
  EXPECT_THAT(run_sliced({}, 2, 2, {1, 2}, {1}, false).gradient, ElementsAre(0, 0));
  EXPECT_THROW(run_sliced({}, 2, 2, {1, 2}, {2}), ConfigError);
  EXPECT_THROW(backend_->sliced_loss({}, dense({2, 3}), {2, 4, 1, 2}), ConfigError);
}

DISTDL_ON_EACH_BACKEND(SlicedLosses);
}  // namespace
}  // namespace distdl::kernels::test
