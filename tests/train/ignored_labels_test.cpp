// SPDX-License-Identifier: Apache-2.0
// Samples whose label counts for nothing: the loss is the mean over the others, wherever these are.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/data/sampler.hpp>
#include <distdl/data/source.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>

namespace distdl::train {
namespace {
constexpr int kIgnored = 1;
constexpr const char* kModel = "ignoring_mlp";

class IgnoredLabels : public Run {
 protected:
  static void SetUpTestSuite() {
    model::add_model(kModel, [](const model::Options& options, const tensor::Shape& sample, std::int64_t classes) {
      auto model = model::mlp(options, sample, classes);
      model.loss = kernels::CrossEntropy{.ignore = kIgnored};
      return model;
    });
  }
  void SetUp() override {
    Run::SetUp();
    recipe_.model = {.name = kModel, .hidden = {16}};
    recipe_.optim = {.learning_rate = 0.5, .momentum = 0, .schedule = "constant"};
    recipe_.train.steps = 1;
    recipe_.kernels.backend = "reference";
  }

  /// Of the first step's samples, in their order.
  data::Batch first_batch() {
    auto source = std::move(data::open_sources(recipe_.data, 1, 1).training);
    const data::Sampler sampler(1, source->samples());
    std::vector<data::Source::Pick> picks;
    for (std::int64_t i = 0; i < 36; ++i) picks.push_back({0, sampler.index(i)});
    data::Batch batch;
    source->read(picks, batch);
    return batch;
  }

  /// What the definition makes of the parameters in one step: all samples at once, and the mean of those that count.
  std::vector<float> expected(const data::Batch& batch, const model::ModelTensors& tensors,
                              const model::Description& model, std::int64_t counted) {
    auto backend = kernels::make_backend({.backend = "reference"});
    model::Network network(*backend, model, tensors, 36);
    std::vector<float> parameters(tensors.layout.size()), gradients(network.gradient_count());
    model::initialize(tensors, 1, parameters);
    network.load_parameters(parameters.data());
    network.set_batch(batch.samples(), batch.labels.data());
    network.forward_backward(gradients.data(), 1 / static_cast<float>(counted));
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.5f * gradients[i];
    return parameters;
  }

  std::vector<float> parameters_of(const std::string& name, const tensor::ArenaLayout& layout) {
    std::vector<float> arena(layout.size());
    std::vector<checkpoint::Target> targets;
    for (const auto& view : layout.tensors())
      targets.push_back({"parameter/" + view.name, tensor::DataType::float32, view.shape, tensor::whole(view.shape),
                         reinterpret_cast<std::byte*>(&arena[view.offset])});
    checkpoint::Store(folder_ / name, {}).read(checkpoint::open(folder_ / name), targets);
    return arena;
  }
};

TEST_F(IgnoredLabels, TheGradientIsThatOfTheMeanOverWhatCounts) {
  const auto batch = first_batch();
  const auto ignored = [&](int first, int end) {
    return std::count(batch.labels.begin() + first, batch.labels.begin() + end, kIgnored);
  };
  const auto counted = 36 - ignored(0, 36);
  ASSERT_LT(counted, 32);
  ASSERT_NE(ignored(0, 18), ignored(18, 36)) << "the ranks' shares are to differ";
  const auto model = model::describe_model(recipe_.model, {1, 12, 12}, 4);
  const auto tensors = model::tensors_of(model);
  const auto wanted = expected(batch, tensors, model, counted);
  for (int ranks : {1, 2}) {
    const auto name = "on" + std::to_string(ranks);
    ASSERT_EQ(run(ranks, name), Outcome::finished);
    const auto found = parameters_of(name, tensors.layout);
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 2e-7) << i;
  }
  EXPECT_EQ(digest("on1"), digest("on2"));
}

TEST_F(IgnoredLabels, TheNormThatIsClippedIsThatOfThisMean) {
  recipe_.optim.clip_norm = 1e-3;
  const auto batch = first_batch();
  const auto counted = 36 - std::count(batch.labels.begin(), batch.labels.end(), kIgnored);
  const auto model = model::describe_model(recipe_.model, {1, 12, 12}, 4);
  const auto tensors = model::tensors_of(model);
  std::vector<float> start(tensors.layout.size());
  model::initialize(tensors, 1, start);
  const auto whole = expected(batch, tensors, model, counted);
  double norm = 0;
  for (std::size_t i = 0; i < start.size(); ++i) norm += std::pow((whole[i] - start[i]) / 0.5, 2);
  run(2, "clipped");
  ASSERT_TRUE(recorder_.steps.at(0).gradient_norm);
  EXPECT_NEAR(*recorder_.steps[0].gradient_norm, std::sqrt(norm), 1e-5 * std::sqrt(norm));
}

TEST_F(IgnoredLabels, AStepInWhichNothingCountsIsNoError) {
  data::make_shapes({.samples = 60, .size = 12, .classes = 4, .seed = 5}, folder_ / "few.h5", Overwrite::refuse);
  recipe_.parallel = {.microbatches = 1, .microbatch_size = 1};  // some of the 60 are of the class that is ignored
  recipe_.data = {};
  recipe_.data.train = (folder_ / "few.h5").string();
  recipe_.train.steps = 60;
  ASSERT_EQ(run(1, "single"), Outcome::finished);
  EXPECT_GT(std::ranges::count_if(recorder_.steps, [](const auto& step) { return step.loss == 0; }), 5);
}
}  // namespace
}  // namespace distdl::train
