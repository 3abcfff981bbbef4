// SPDX-License-Identifier: Apache-2.0
// Groups that train apart from each other and are averaged now and then: the result depends on the groups and on the
// length of a round, but neither on the ranks nor on interruptions.

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"

namespace distdl::train {
namespace {
using parallel::Compression;
using parallel::Outer;
using parallel::Strategy;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class LocalGroups : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 11;  // the last round is shorter
    recipe_.checkpoint.every = 0;
    recipe_.parallel.strategy = Strategy::local_sgd;
    recipe_.parallel.local_sgd.steps = 4;
    recipe_.parallel.local_sgd.groups = 4;
  }
  /// The losses of all steps of a new run, and then that of the evaluation.
  std::vector<double> losses(int ranks, const std::string& name) {
    recorder_ = {};
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    std::vector<double> all;
    for (const auto& step : recorder_.steps) all.push_back(*step.loss);
    all.push_back(*recorder_.evaluated.back().loss);
    return all;
  }
  /// Rows of the tensors that begin so in the newest checkpoint, as far as they agree; 0: there are none.
  std::int64_t rows_of(const std::string& name, const std::string& prefix) {
    std::int64_t rows = 0;
    for (const auto& tensor : checkpoint::open(folder_ / name).tensors)
      if (tensor.name.starts_with(prefix)) rows = tensor.shape[0];
    return rows;
  }
  /// With weights that are long enough.
  void use_compression() {
    recipe_.model.hidden = {24};
    recipe_.parallel.compression.fraction = 0.05;
    recipe_.parallel.compression.rank = 2;
    recipe_.parallel.compression.warmup_steps = 4;
  }
  std::vector<float> values_of(const checkpoint::Summary& found, const checkpoint::TensorEntry& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor::element_count(tensor.shape)));
    checkpoint::Store(found.folder.parent_path(), {})
        .read(found,
              std::vector<checkpoint::Target>{{tensor.name, tensor.dtype, tensor.shape, tensor::whole(tensor.shape),
                                               reinterpret_cast<std::byte*>(values.data())}});
    return values;
  }
  /// Of the newest checkpoint, at the end of a round. The rows of groups were saved by the ranks that have them.
  void expect_groups_have_the_average(const std::string& name) {
    const auto found = checkpoint::open(folder_ / name);
    std::map<std::string, std::vector<float>> averages;
    for (const auto& tensor : found.tensors)
      if (tensor.name.starts_with("parameter/")) averages["group/" + tensor.name] = values_of(found, tensor);
    for (const auto& tensor : found.tensors) {
      if (!averages.contains(tensor.name)) continue;
      const auto rows = values_of(found, tensor);
      const auto& average = averages[tensor.name];
      ASSERT_EQ(rows.size(), 4 * average.size());
      for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], average[i % average.size()]) << tensor.name;
    }
    EXPECT_FALSE(averages.empty());
  }
  static double largest_difference(const std::vector<double>& one, const std::vector<double>& other) {
    EXPECT_EQ(one.size(), other.size());
    double most = 0;
    for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i)
      most = std::max(most, std::abs(one[i] - other[i]));
    return most;
  }
};

TEST_F(LocalGroups, TheBytesDoNotDependOnTheRanks) {
  recipe_.optim.clip_norm = 0.5;
  for (const auto outer : {Outer::mean, Outer::nesterov}) {
    recipe_.parallel.local_sgd.outer = outer;
    const std::string name(recipe_.parallel.local_sgd.outer.name());
    const auto alone = losses(1, name + "1");
    EXPECT_EQ(rows_of(name + "1", "group/parameter/"), 4);
    EXPECT_EQ(rows_of(name + "1", "group/momentum/"), 4);
    EXPECT_EQ(rows_of(name + "1", "outer_momentum/") > 0, outer == Outer::nesterov);
    const auto norm = recorder_.steps.back().gradient_norm;
    EXPECT_GT(norm.value_or(0), 0);
    const auto numbers = outer == Outer::mean ? std::vector{2, 4, 6} : std::vector{3, 4};
    for (const int ranks : numbers) {  // of 3, one has two groups; of 6, some have a group together
      const auto other = name + std::to_string(ranks);
      EXPECT_EQ(losses(ranks, other), alone) << other;
      EXPECT_EQ(recorder_.steps.back().gradient_norm, norm) << other;
      EXPECT_EQ(digest(other), digest(name + "1")) << other;
    }
  }
}

/// With dropout, which draws by microbatch.
TEST_F(LocalGroups, WithAdamAndThreeGroupsTheBytesDoNotDependOnTheRanks) {
  use_text();
  recipe_.train.steps = 6;
  recipe_.optim.name = "adamw";
  recipe_.optim.learning_rate = 1e-2;
  recipe_.parallel.local_sgd.groups = 3;
  shared_memory_ranks_ = 1;
  const auto whole = digest_of(1, "whole");
  for (const int ranks : {2, 5}) EXPECT_EQ(digest_of(ranks, std::to_string(ranks)), whole) << ranks;
}

TEST_F(LocalGroups, OneGroupIsARunOfReplicas) {
  recipe_.parallel.local_sgd.groups = 1;
  const auto one = losses(2, "one");
  recipe_.parallel.strategy = Strategy::replicas;
  EXPECT_EQ(one, losses(2, "replicas"));
}

/// The average of what plain SGD makes of each group's gradient is what it makes of the average of the gradients.
/// Rounding differs, and grows from step to step: there are few.
TEST_F(LocalGroups, AveragesAfterEachStepOfPlainSgdAreARunOfReplicas) {
  recipe_.train.steps = 6;
  recipe_.optim = {.learning_rate = 0.05, .momentum = 0, .schedule = optim::Schedule::constant};
  recipe_.parallel.local_sgd.steps = 1;
  const auto averaged = losses(2, "averaged");
  recipe_.parallel.local_sgd.steps = 4;
  const auto apart = losses(2, "apart");
  recipe_.parallel.strategy = Strategy::replicas;
  const auto replicas = losses(2, "replicas");
  EXPECT_LT(largest_difference(averaged, replicas), 1e-5);
  EXPECT_GT(largest_difference(apart, replicas), 1e-4);
}

/// An outer step for each step, at the full rate, is Nesterov's momentum.
TEST_F(LocalGroups, OuterStepsAfterEachStepOfPlainSgdAreNesterovsMomentum) {
  recipe_.train.steps = 6;
  recipe_.optim = {.learning_rate = 0.05, .momentum = 0, .schedule = optim::Schedule::constant};
  recipe_.parallel.local_sgd.steps = 1;
  recipe_.parallel.local_sgd.outer = Outer::nesterov;
  recipe_.parallel.local_sgd.outer_learning_rate = 1;
  recipe_.parallel.local_sgd.outer_momentum = 0.8;
  const auto outer = losses(2, "outer");
  recipe_.parallel.local_sgd.outer_momentum = 0.5;
  const auto other = losses(2, "other");
  recipe_.parallel.strategy = Strategy::replicas;
  recipe_.optim.momentum = 0.8;
  recipe_.optim.nesterov = true;
  const auto replicas = losses(2, "replicas");
  EXPECT_LT(largest_difference(outer, replicas), 1e-5);
  EXPECT_GT(largest_difference(other, replicas), 1e-3);
}

TEST_F(LocalGroups, ARunMayBeResumedInARoundOnOtherRanks) {
  recipe_.parallel.local_sgd.outer = Outer::nesterov;
  recipe_.train.steps = 13;
  recipe_.parallel.local_sgd.steps = 5;
  const auto whole = digest_of(2, "whole");
  EXPECT_EQ(run(1, "cut", 2), Outcome::stopped);
  EXPECT_EQ(run(6, "cut", 3, 5), Outcome::stopped);  // the last rank asks, which tells no group
  EXPECT_EQ(run(3, "cut", 3), Outcome::stopped);
  EXPECT_EQ(digest_of(4, "cut"), whole);
  std::vector<std::int64_t> resumed;
  for (const auto& started : recorder_.started)
    if (started.resumed_from) resumed.push_back(started.resumed_from->value);
  ASSERT_EQ(resumed.size(), 3u);
  EXPECT_THAT(resumed, Each(::testing::Truly([](std::int64_t step) { return step % 5 != 0; })));
}

TEST_F(LocalGroups, SnapshotsHaveTheGroups) {
  const auto whole = digest_of(2, "whole");
  recipe_.checkpoint.memory_every = 2;
  crash_at_ = 2;
  for (const char* name : {"fewer", "more"}) EXPECT_THROW(run(2, name), std::runtime_error);
  crash_at_ = -1;
  recorder_ = {};
  EXPECT_EQ(digest_of(1, "fewer"), whole);
  EXPECT_EQ(digest_of(5, "more"), whole);
  for (const auto& started : recorder_.started) EXPECT_EQ(started.resumed_from.value_or(Step(0)), Step(2));
}

TEST_F(LocalGroups, CompressedRoundsGiveAllRanksTheSameParameters) {
  use_compression();
  for (const auto compression : {Compression::int8, Compression::topk, Compression::onebit, Compression::powersgd}) {
    recipe_.parallel.compression.encoding = compression;
    const std::string name(recipe_.parallel.compression.encoding.name());
    const auto whole = digest_of(3, name);
    expect_groups_have_the_average(name);
    EXPECT_EQ(rows_of(name, "residual/"), 3) << name;
    EXPECT_EQ(recorder_.steps.back().compression, name);
    EXPECT_EQ(run(3, "cut-" + name, 6), Outcome::stopped);  // in a round, with residuals of the one before
    EXPECT_EQ(digest_of(3, "cut-" + name), whole) << name;
  }
}

TEST_F(LocalGroups, ACompressedRunMayBeResumedOnOtherRanksAndWithoutCompression) {
  use_compression();
  recipe_.parallel.compression.encoding = Compression::int8;
  EXPECT_EQ(run(2, "run", 2), Outcome::stopped);
  EXPECT_EQ(run(6, "run", 4, 5), Outcome::stopped);  // some ranks tell no group, but have residuals
  EXPECT_EQ(rows_of("run", "residual/"), 6);
  recipe_.parallel.compression.encoding = Compression::automatic;  // all ranks are on one host: none
  EXPECT_EQ(run(6, "run"), Outcome::finished);
  EXPECT_EQ(recorder_.steps.back().compression, "none");
  expect_groups_have_the_average("run");
}

TEST_F(LocalGroups, CompressedRoundsEndNearExactOnes) {
  use_compression();
  recipe_.parallel.local_sgd.outer = Outer::nesterov;
  const auto exact = losses(2, "none");
  recipe_.parallel.compression.encoding = Compression::int8;
  const auto compressed = losses(2, "int8");
  EXPECT_GT(largest_difference(compressed, exact), 0);
  EXPECT_LT(largest_difference(compressed, exact), 1e-2);
}

TEST_F(LocalGroups, TheParametersOfTheLastRoundAreEvaluated) {
  recipe_.train.steps = 9;
  recipe_.train.evaluate_every_steps = 2;
  recipe_.train.evaluate_every = 0;
  losses(2, "run");
  std::vector<double> found;  // after steps 2, 4, 6, 8 and 9
  for (const auto& evaluated : recorder_.evaluated) found.push_back(*evaluated.loss);
  ASSERT_EQ(found.size(), 5u);
  EXPECT_NE(found[0], found[1]);
  EXPECT_EQ(found[1], found[2]);
  EXPECT_NE(found[2], found[3]);
  EXPECT_NE(found[3], found[4]);  // the last step ends a round, too
}

TEST_F(LocalGroups, OtherGroupsGoOnFromTheAveragedParametersOnlyIfThatIsWanted) {
  ASSERT_EQ(run(2, "run", 5), Outcome::stopped);
  recipe_.parallel.local_sgd.groups = 2;
  EXPECT_THAT(error_of(2, "run"), AllOf(HasSubstr("has the states of 4 groups (parallel.strategy = \"local_sgd\", "
                                                  "parallel.groups = 4), but this run has 2 groups"),
                                        HasSubstr("--partial")));
  EXPECT_EQ(code_, ExitCode::incompatible);
  recipe_.parallel.strategy = Strategy::replicas;
  EXPECT_THAT(error_of(2, "run"), HasSubstr("but this run has no groups"));
  recipe_.checkpoint.partial = true;
  EXPECT_EQ(run(2, "run", 2), Outcome::stopped);
  EXPECT_EQ(recorder_.started.back().resumed_from, Step(6));
  EXPECT_EQ(rows_of("run", "group/"), 0);
  recipe_.checkpoint.partial = false;
  recipe_.parallel.strategy = Strategy::local_sgd;
  EXPECT_THAT(error_of(2, "run"), HasSubstr("has the states of no groups, but this run has 2 groups"));
  recipe_.checkpoint.partial = true;
  EXPECT_EQ(run(1, "run"), Outcome::finished);
  EXPECT_EQ(rows_of("run", "group/parameter/"), 2);
}

TEST_F(LocalGroups, RefusesWhatIsNotBuilt) {
  const Recipe good = recipe_;
  const auto error = [&](const std::function<void(Recipe&)>& change) {
    Recipe recipe = good;
    change(recipe);
    try {
      check(recipe);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error([](Recipe&) {}), "");
  EXPECT_THAT(error([](Recipe& r) { r.parallel.pipeline_ranks = 2; }), HasSubstr("use parallel.pipeline_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.tensor_ranks = 2; }), HasSubstr("use parallel.tensor_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.context_ranks = 2; }), HasSubstr("use parallel.context_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.optim.ema_decay = 0.9; }), HasSubstr("use optim.ema_decay = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.train.audit_every = 5; }), HasSubstr("use train.audit_every = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.local_sgd.groups = 5; }), HasSubstr("the nearest number is"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.local_sgd.groups = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.local_sgd.steps = 0; }), HasSubstr("parallel.local_steps is 0"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.local_sgd.outer_learning_rate = 0; }), HasSubstr("above 0"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.local_sgd.outer_momentum = 1; }), HasSubstr("below 1"));
}
}  // namespace
}  // namespace distdl::train
