// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>

namespace distdl::train {
namespace {
using testing::HasSubstr;

class Text : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.data.holdout = 51;  // 5 pieces, and the label of the last letter
    recipe_.parallel = {.microbatches = 6, .microbatch_size = 2};
    recipe_.train.epochs = 6;
    recipe_.optim.learning_rate = 0.3;
  }
};

TEST_F(Text, IsLearntWithTheSameBytesOnEveryNumberOfRanksAndAfterAStop) {
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  EXPECT_NEAR(*recorder_.steps.front().loss, std::log(256), 0.2);
  EXPECT_LT(recorder_.steps.back().loss, 2);  // each letter follows from the one before
  EXPECT_LT(recorder_.evaluated.back().loss, 2);
  ASSERT_EQ(run(3, "on3"), Outcome::finished);
  EXPECT_EQ(digest("on3"), digest("on1"));
  EXPECT_EQ(run(2, "cut", 7), Outcome::stopped);
  EXPECT_EQ(run(3, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest("on1"));  // dropout goes on where it was
}

TEST_F(Text, ThatIsTooShortIsRefused) {
  recipe_.data.holdout = 0;
  recipe_.model.context = 600;
  EXPECT_THAT(error_of(1, "short"),
              HasSubstr("has 600 tokens to train on, too few for one sample of model.context = 600"));
  EXPECT_EQ(code_, ExitCode::config);
}

TEST_F(Text, IsNothingForAModelOfImagesNorImagesForOneOfText) {
  recipe_.model.name = "lenet";
  EXPECT_THAT(error_of(2, "a"), HasSubstr("takes images"));
  recipe_.model.name = "gpt";
  recipe_.data.train = set().string();
  EXPECT_THAT(error_of(2, "b"), HasSubstr("takes sequences of tokens"));
  recipe_.data.validation = (folder_ / "text.h5").string();
  EXPECT_THAT(error_of(2, "c"), HasSubstr("both must agree"));
}

TEST_F(Text, ModelsWhoseLossTakesOtherTargetsThanLabelsAreRefused) {
  model::add_model("regression", [](const model::Options& options, const tensor::Shape& sample, std::int64_t classes) {
    model::Description model{options.name, sample, classes, {{"fc", kernels::Linear{classes}}}};
    model.loss = kernels::MeanSquaredError{};
    return model;
  });
  recipe_.data.train = set().string();
  recipe_.model = {.name = "regression"};
  EXPECT_THAT(error_of(1, "regression"), HasSubstr("does not take 1 label per sample"));
}
}  // namespace
}  // namespace distdl::train
