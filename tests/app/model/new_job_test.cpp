// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/app/model/new_job.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using testing::HasSubstr;
using testing::Not;

struct Images {
  tensor::Shape shape;
  std::int64_t count = 10'000, classes = 10;
  bool sorted = false;
  std::int64_t of_the_first = 1;  ///< samples of class 0 for each other one
};

NewJob job_for(const Images& images, const std::string& model = "") {
  std::vector<std::int32_t> labels;
  const auto period = images.classes - 1 + images.of_the_first;
  for (std::int64_t i = 0; i < images.count; ++i)
    labels.push_back(static_cast<std::int32_t>(images.sorted
                                                   ? i * images.classes / images.count
                                                   : std::max<std::int64_t>(0, i % period - images.of_the_first + 1)));
  const data::Description set{
      .kind = "images", .samples = images.count, .shape = images.shape, .classes = images.classes};
  return new_job({"a set.h5", "", set, labels}, model, "job.toml");
}

NewJob job_for_tokens(std::int64_t tokens, std::int64_t vocabulary) {
  return new_job({"text.h5", "", {.kind = "tokens", .samples = tokens, .classes = vocabulary}}, "", "job.toml");
}

TEST(NewJob, ChoosesTheModelByTheData) {
  EXPECT_EQ(job_for({{1, 28, 28}}).job.recipe.model.name, "lenet");
  EXPECT_EQ(job_for({{3, 32, 32}}).job.recipe.model.name, "resnet18");
  EXPECT_EQ(job_for({{1, 224, 224}}).job.recipe.model.name, "resnet18");
  EXPECT_EQ(job_for({{1, 2, 9}}).job.recipe.model.name, "mlp");
  EXPECT_EQ(job_for_tokens(1'000'000, 256).job.recipe.model.name, "gpt");
  EXPECT_EQ(job_for({{1, 28, 28}}, "vit").job.recipe.model.patch, 4);
  EXPECT_THROW(job_for({{1, 127, 131}}, "vit"), ConfigError);
}

TEST(NewJob, ChoosesSizesByTheNumberOfSamples) {
  const auto small = job_for({.shape = {1, 28, 28}, .count = 100}).job.recipe,
             large = job_for({.shape = {1, 28, 28}, .count = 60'000}).job.recipe;
  EXPECT_EQ(small.data.holdout, 10);
  EXPECT_EQ(large.data.holdout, 6000);
  EXPECT_LT(small.parallel.microbatch_size, large.parallel.microbatch_size);
  EXPECT_LT(small.optim.learning_rate, large.optim.learning_rate);
  EXPECT_GT(small.train.epochs, large.train.epochs);
  EXPECT_EQ(job_for({.shape = {1, 28, 28}, .count = 5}).job.recipe.data.holdout, 0);
  const auto letters = job_for_tokens(4000, 256).job.recipe.model,
             words = job_for_tokens(2'000'000'000, 50257).job.recipe.model;
  EXPECT_LT(letters.context, words.context);
  EXPECT_LT(letters.width, words.width);
}

TEST(NewJob, HoldsOutNothingOfASetThatIsSorted) {
  const auto sorted = job_for({.shape = {1, 28, 28}, .sorted = true});
  EXPECT_EQ(sorted.job.recipe.data.holdout, 0);
  EXPECT_THAT(sorted.text, HasSubstr("10 classes are only in one of them, as in sorted files"));
  EXPECT_THAT(job_for({{1, 28, 28}}).text, Not(HasSubstr("sorted")));
}

TEST(NewJob, SaysThatClassesAreUneven) {
  EXPECT_THAT(job_for({.shape = {1, 28, 28}, .of_the_first = 11}).text,
              HasSubstr("# Classes are uneven, from 500 to 5500 images"));
  EXPECT_THAT(job_for({{1, 28, 28}}).text, Not(HasSubstr("uneven")));
}

TEST(NewJob, WritesWhatItChose) {
  const auto made = job_for({{3, 32, 32}});
  EXPECT_THAT(made.text, HasSubstr("\n[data]\ntrain = \"a set.h5\"\nholdout = 1000 "));
  EXPECT_THAT(made.text, HasSubstr("\ncrop = 4 "));
  EXPECT_THAT(made.text, HasSubstr("\n[model]\nname = \"resnet18\" "));
  EXPECT_THAT(made.text, HasSubstr("\ndir = \"run-a set-resnet18\" "));
  EXPECT_THAT(made.text, HasSubstr("\nevery = \"auto\" "));
}
}  // namespace
}  // namespace distdl::app
