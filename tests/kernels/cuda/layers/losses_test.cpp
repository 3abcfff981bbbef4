// SPDX-License-Identifier: Apache-2.0
// Losses by the bodies of their CUDA kernels, on the CPU, against the backend "reference". Needs no CUDA.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kernels/cuda/on_cpu.hpp"
#include "tests/kernels/cuda/reference_layer.hpp"
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/layers/cross_entropy.hpp>
#include <distdl/kernels/cuda/layers/sliced_entropy.hpp>
#include <distdl/kernels/cuda/layers/squared_error.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::kernels::cuda::test {
namespace {
using testing::FloatNear;
using testing::Pointwise;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kScale = 0.25f;

struct Result {
  std::array<float, 3> totals{};
  Values gradient;
};

Result on_reference(const LossSpec& spec, const tensor::Shape& shape, const Values& predictions, const void* targets) {
  Result result{{}, Values(predictions.size(), 99.0f)};
  auto reference = make_backend({.backend = "reference"});
  reference->loss(spec, dense(shape))
      ->forward_backward(predictions.data(), targets, kScale, result.gradient.data(), result.totals.data());
  return result;
}

template <class T = float>
Result on_cpu(const CrossEntropy& spec, std::int32_t classes, const Values& given,
              const std::vector<std::int32_t>& labels) {
  const auto logits = as<T>(given);
  Result result;
  std::vector<T> gradient(logits.size(), 99.0f);
  const auto rows = static_cast<std::int64_t>(given.size()) / classes;
  std::vector<double> losses(3 * static_cast<std::size_t>(rows), -1);
  MixedTargets mixed;
  if (spec.is_mixed) mixed = {&labels[rows], reinterpret_cast<const float*>(&labels[2 * rows])};
  const Numbers numbers{labels.data(), rows, classes, spec.ignore.has_value(), spec.ignore.value_or(0)};
  for_each_long_row(rows, CrossEntropyRow<T>{logits.data(),
                                             numbers,
                                             spec.smoothing,
                                             kScale,
                                             gradient.data(),
                                             {&losses[0], &losses[rows], &losses[2 * rows]},
                                             mixed});
  sum_each(3, rows, TotalLosses{losses.data(), result.totals.data(), rows});
  result.gradient.assign(gradient.begin(), gradient.end());
  return result;
}

/// The same, in slices of the classes.
Result in_slices(const CrossEntropy& spec, std::int32_t classes, std::int64_t slices, const Values& logits,
                 const std::vector<std::int32_t>& labels) {
  const auto rows = static_cast<std::int64_t>(labels.size());
  const Numbers numbers{labels.data(), rows, classes, spec.ignore.has_value(), spec.ignore.value_or(0)};
  std::vector<SliceOfRow> summaries(static_cast<std::size_t>(slices * rows));
  std::vector<double> losses(3 * labels.size(), -1);
  Result result{{}, Values(logits.size(), 99.0f)};
  for (const bool summarizes : {true, false})
    for (std::int64_t s = 0; s < slices; ++s) {
      const std::int64_t first = classes * s / slices, count = classes * (s + 1) / slices - first;
      Values own, gradient(static_cast<std::size_t>(rows * count));
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t c = 0; c < count; ++c) own.push_back(logits[n * classes + first + c]);
      const SliceOfLogits<float> slice{own.data(), numbers, first, count, spec.smoothing};
      if (summarizes) {
        for_each_long_row(rows, SummarizeRow<float>{slice, &summaries[s * rows]});
        continue;
      }
      const RowLosses to{&losses[0], &losses[rows], &losses[2 * rows]};
      for_each_long_row(rows,
                        SlicedEntropyRow<float>{slice, summaries.data(), slices, rows, kScale, gradient.data(), to});
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t c = 0; c < count; ++c) result.gradient[n * classes + first + c] = gradient[n * count + c];
    }
  sum_each(3, rows, TotalLosses{losses.data(), result.totals.data(), rows});
  return result;
}

struct EntropyCase {
  CrossEntropy spec;
  std::int32_t classes;
  std::int64_t rows;
  float size;  ///< of the logits
};

struct Rows {
  Values logits;
  std::vector<std::int32_t> labels;
};
Rows rows_of(const EntropyCase& one) {
  Rows rows{random_values(one.rows * one.classes, 1), {}};
  for (float& logit : rows.logits) logit *= one.size;
  for (std::int64_t row = 0; row < one.rows; ++row)
    rows.labels.push_back(one.spec.ignore && row % 3 == 1 ? *one.spec.ignore
                                                          : static_cast<std::int32_t>(row * row % one.classes));
  return rows;
}

class CudaCrossEntropy : public testing::TestWithParam<EntropyCase> {};

TEST_P(CudaCrossEntropy, AgreesWithReference) {
  const auto& [spec, classes, rows, size] = GetParam();
  const auto [logits, labels] = rows_of(GetParam());
  const Result expected = on_reference(spec, {rows, classes}, logits, labels.data());
  const Result actual = on_cpu(spec, classes, logits, labels);
  EXPECT_NEAR(actual.totals[0], expected.totals[0], 1e-6f * std::max(1.0f, expected.totals[0]));
  EXPECT_EQ(actual.totals[1], expected.totals[1]);
  EXPECT_EQ(actual.totals[2], expected.totals[2]);
  EXPECT_THAT(actual.gradient, Pointwise(FloatNear(1e-6f), expected.gradient));
}

TEST_P(CudaCrossEntropy, OfSlicesIsThatOfWholeRows) {
  const auto& [spec, classes, rows, size] = GetParam();
  const auto [logits, labels] = rows_of(GetParam());
  const Result expected = on_reference(spec, {rows, classes}, logits, labels.data());
  for (const std::int64_t slices : {1, 2, 3}) {
    if (slices > classes) continue;
    const Result actual = in_slices(spec, classes, slices, logits, labels);
    EXPECT_NEAR(actual.totals[0], expected.totals[0], 1e-6f * std::max(1.0f, expected.totals[0])) << slices;
    EXPECT_EQ(actual.totals[1], expected.totals[1]);
    EXPECT_EQ(actual.totals[2], expected.totals[2]);
    EXPECT_THAT(actual.gradient, Pointwise(FloatNear(1e-6f), expected.gradient)) << slices;
  }
}

TEST_P(CudaCrossEntropy, TakesSixteenBits) {
  const auto& [spec, classes, rows, size] = GetParam();
  Values logits = random_values(rows * classes, 1);
  for (float& logit : logits) logit *= size;
  round_to<Bfloat16>(logits);
  const std::vector<std::int32_t> labels(rows, classes / 2);
  const Result expected = on_reference(spec, {rows, classes}, logits, labels.data());
  const Result actual = on_cpu<Bfloat16>(spec, classes, logits, labels);
  EXPECT_NEAR(actual.totals[0], expected.totals[0], 1e-6f * std::max(1.0f, expected.totals[0]));
  EXPECT_EQ(actual.totals[1], expected.totals[1]);
  expect_near(as<Bfloat16>(actual.gradient), expected.gradient, 1e-6f);
}

INSTANTIATE_TEST_SUITE_P(Rows, CudaCrossEntropy,
                         testing::Values(EntropyCase{{}, 3, 40, 1}, EntropyCase{{}, 1, 2, 1},
                                         EntropyCase{{}, 1000, 9, 10}, EntropyCase{{.smoothing = 0.1f}, 300, 5, 3},
                                         EntropyCase{{.smoothing = 0.2f, .ignore = -100}, 10, 300, 2},
                                         EntropyCase{{.ignore = 2}, 65, 20, 30}));

TEST(CudaCrossEntropy, OfMixedTargetsAgreesWithReference) {
  const std::int32_t classes = 65, rows = 5;
  const Values logits = random_values(rows * classes, 1);
  std::vector<std::int32_t> targets{0, 64, 7, 7, 20, 64, 3, 7, 9, 21};
  for (const float share : {0.0f, 0.3f, 0.5f, 0.75f, 1.0f}) targets.push_back(std::bit_cast<std::int32_t>(share));
  for (const float smoothing : {0.0f, 0.1f}) {
    const CrossEntropy spec{.smoothing = smoothing, .ignore = {}, .is_mixed = true};
    const Result expected = on_reference(spec, {rows, classes}, logits, targets.data());
    const Result actual = on_cpu(spec, classes, logits, targets);
    EXPECT_NEAR(actual.totals[0], expected.totals[0], 1e-6f * expected.totals[0]);
    EXPECT_EQ(actual.totals[1], expected.totals[1]);
    EXPECT_EQ(actual.totals[2], expected.totals[2]);
    EXPECT_THAT(actual.gradient, Pointwise(FloatNear(1e-6f), expected.gradient));
  }
}

TEST(CudaCrossEntropy, OfTheFirstOfEqualLogitsIsAHit) {
  for (std::int32_t place : {0, 31, 32, 255, 256, 299}) {
    Values logits(300, -1.0f);
    logits[place] = logits[299] = logits[290] = 2;
    const std::int32_t first = std::min(place, 290);
    EXPECT_EQ(on_cpu({}, 300, logits, {first}).totals[1], 1) << place;
    EXPECT_EQ(on_cpu({}, 300, logits, {first == 290 ? 299 : 290}).totals[1], 0) << place;
  }
  EXPECT_EQ(on_cpu({}, 300, Values(300, -kInfinity), {0}).totals[1], 1);
}

TEST(CudaCrossEntropy, InfinitelyUnlikelyClassesDoNotMatter) {
  const Result result = on_cpu({}, 4, {-kInfinity, 1, 1, -kInfinity}, {2});
  EXPECT_NEAR(result.totals[0], std::log(2.0), 1e-6);
  EXPECT_EQ(result.gradient, (Values{0, 0.5f * kScale, -0.5f * kScale, 0}));
}

TEST(CudaCrossEntropy, StaysFiniteForLargeLogits) {
  const Result result = on_cpu({}, 3, {1e4f, -1e4f, 0, -3e4f, 0, 3e4f}, {0, 1});
  EXPECT_FLOAT_EQ(result.totals[0], 3e4f);
  EXPECT_EQ(result.gradient, (Values{0, 0, 0, 0, -kScale, kScale}));
}

TEST(CudaCrossEntropy, LabelThatIsNoClassMakesTheLossNaN) {
  EXPECT_TRUE(std::isnan(on_cpu({}, 3, {1, 2, 3}, {3}).totals[0]));
  EXPECT_TRUE(std::isnan(on_cpu({}, 3, {1, 2, 3}, {-1}).totals[0]));
}

TEST(CudaCrossEntropy, NaNIsSeen) {
  const Result result = on_cpu({}, 3, {1, std::nanf(""), 3}, {0});
  EXPECT_TRUE(std::isnan(result.totals[0]));
  EXPECT_TRUE(std::isnan(result.gradient[0]));
}

TEST(CudaSquaredError, AgreesWithReference) {
  for (const tensor::Shape& shape : {tensor::Shape{3, 5}, tensor::Shape{2, 7, 50}, tensor::Shape{300}}) {
    const std::int64_t count = tensor::element_count(shape), samples = shape[0], values = count / samples;
    const Values predictions = random_values(count, 1), targets = random_values(count, 2);
    const Result expected = on_reference(MeanSquaredError{}, shape, predictions, targets.data());
    Result actual{{}, Values(predictions.size())};
    std::vector<double> errors(static_cast<std::size_t>(samples));
    sum_each(samples, values, SampleError<float>{predictions.data(), targets.data(), errors.data(), values});
    sum_each(1, samples, TotalError{errors.data(), actual.totals.data(), samples});
    for_each(predictions.size(), ErrorGradient<float>{predictions.data(), targets.data(), actual.gradient.data(),
                                                      2 * double{kScale} / static_cast<double>(values)});
    EXPECT_FLOAT_EQ(actual.totals[0], expected.totals[0]);
    EXPECT_EQ(actual.totals[1], 0);
    EXPECT_EQ(actual.totals[2], expected.totals[2]);
    EXPECT_THAT(actual.gradient, Pointwise(FloatNear(1e-7f), expected.gradient));
  }
}
}  // namespace
}  // namespace distdl::kernels::cuda::test
