// SPDX-License-Identifier: Apache-2.0
// Arrays with numbers to predict: tables and fields.
#include <cmath>

#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/data/arrays.hpp>

namespace distdl::train {
namespace {
using testing::HasSubstr;

class ArrayRuns : public Run {
 protected:
  /// Samples whose targets follow from their inputs: each the sum of a value and of the one before.
  void use(const tensor::Shape& shape, const tensor::Shape& targets) {
    constexpr std::int64_t kSamples = 190, kHeld = 40;
    const auto size = static_cast<std::size_t>(tensor::element_count(shape));
    const auto wanted = static_cast<std::size_t>(tensor::element_count(targets));
    data::ArrayNames names;
    for (std::int64_t i = 0; i < shape[0]; ++i) names.inputs.push_back(fmt::format("x{}", i));
    for (std::int64_t i = 0; i < targets[0]; ++i) names.targets.push_back(fmt::format("y{}", i));
    data::ArraySetWriter writer(file(), {.origin = "test", .samples = kSamples, .shape = shape, .targets = targets},
                                names, nullptr, Overwrite::replace);
    std::vector<float> inputs(size), outputs(wanted);
    for (std::int64_t n = 0; n < kSamples; ++n) {
      for (std::size_t i = 0; i < size; ++i)
        inputs[i] = static_cast<float>(std::sin(static_cast<double>(n * 131 + static_cast<std::int64_t>(i) * 17)));
      for (std::size_t i = 0; i < wanted; ++i) outputs[i] = 1000 * (inputs[i % size] + inputs[(i + size - 1) % size]);
      writer.append_inputs(inputs);
      writer.append_targets(outputs);
    }
    writer.commit();
    recipe_.data.train = file().string();
    recipe_.data.holdout = kHeld;
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 4};
    recipe_.train.epochs = 4;
    recipe_.optim.learning_rate = 0.05;
  }
  std::filesystem::path file() const { return folder_ / "arrays.h5"; }
};

TEST_F(ArrayRuns, OfATableAreTheSameOnAnyRanksAndAfterAStop) {
  use({5, 1, 1}, {2});
  recipe_.model = {.name = "mlp", .hidden = {24}};
  recipe_.train.epochs = 12;
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  EXPECT_FALSE(recorder_.steps.back().accuracy) << "there are no classes";
  EXPECT_FALSE(recorder_.evaluated.back().accuracy);
  EXPECT_NEAR(*recorder_.steps.front().loss, 1, 0.5) << "targets are normalized";
  EXPECT_LT(*recorder_.evaluated.back().loss, 0.3);
  EXPECT_EQ(digest_of(2, "on2"), digest("on1"));
  EXPECT_EQ(digest_of(3, "on3"), digest("on1"));
  expect_same_bytes_when_stopped_and_resumed();
}

TEST_F(ArrayRuns, OfFieldsPredictFields) {
  use({2, 6, 5}, {1, 6, 5});
  recipe_.model = {.name = "fcn", .hidden = {8}};
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  EXPECT_LT(*recorder_.evaluated.back().loss, *recorder_.evaluated.front().loss);
  EXPECT_EQ(digest_of(3, "on3"), digest("on1"));
  recipe_.kernels.backend = "reference";
  EXPECT_EQ(run(2, "reference"), Outcome::finished);
}

TEST_F(ArrayRuns, OfThreeDimensionsNeedAModelThatTakesThem) {
  use({2, 3, 2, 4}, {3});
  for (const char* backend : {"onednn", "reference"}) {
    recipe_.kernels.backend = backend;
    recipe_.model = {.name = "mlp", .hidden = {16}};
    EXPECT_EQ(digest_of(1, fmt::format("{}1", backend)), digest_of(2, fmt::format("{}2", backend)));
  }
  recipe_.model = {.name = "fcn"};
  EXPECT_THAT(error_of(1, "fcn"), HasSubstr("there are no layers of three dimensions"));
}

TEST_F(ArrayRuns, AreRefusedWhereTheModelDoesNotFit) {
  use({2, 6, 5}, {3});
  recipe_.model = {.name = "fcn"};
  EXPECT_THAT(error_of(1, "a"), HasSubstr("predicts fields of the extents 6 x 5"));
  recipe_.model = {.name = "gpt"};
  EXPECT_EQ(code_, ExitCode::config);
  EXPECT_THAT(error_of(1, "b"), HasSubstr("takes sequences of tokens"));
  recipe_.model = {.name = "mlp", .label_smoothing = 0.1};
  EXPECT_THAT(error_of(1, "c"), HasSubstr("model.label_smoothing is 0.1, but"));
  recipe_.model = {.name = "mlp"};
  recipe_.train.keep_best = true;
  recipe_.train.best_metric = Metric::accuracy;
  EXPECT_THAT(error_of(1, "d"), HasSubstr("set it to \"loss\""));
}

}  // namespace
}  // namespace distdl::train
