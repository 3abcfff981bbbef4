// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/model/models.hpp>

namespace distdl::forecast {
namespace {
using ::testing::Contains;
using ::testing::HasSubstr;

/// An mlp whose parameters are most of its memory.
Workload mlp_work() {
  Workload work;
  work.model = model::describe_model({.name = "mlp", .hidden = {1000, 1000}}, {1, 28, 28}, 10);
  work.tensors = model::tensors_of(work.model);
  work.samples = 9600;
  work.sample_bytes = 4 * 28 * 28;
  return work;
}

train::Recipe mlp_recipe() {
  train::Recipe recipe;
  recipe.kernels.backend = "reference";
  recipe.optim.name = "adamw";
  recipe.parallel = {.microbatches = 12, .microbatch_size = 8};
  recipe.train.epochs = 10;
  recipe.checkpoint.mode = checkpoint::SaveMode::sync;
  return recipe;
}

MeasuredWork measured(const std::string& identity, int ranks, double forward) {
  MeasuredWork work;
  work.identity = identity;
  work.ranks = ranks;
  work.work = {
      .forward = forward, .backward = 2 * forward, .finals = {{100, 0.5}, {0, 1}}, .add = 0.125, .update = 0.25};
  work.flops = 3e9;
  work.program_bytes = 5e7;
  return work;
}

Machine machine_of(int nodes, int ranks_per_node = 1) {
  Machine machine;
  machine.nodes = nodes;
  machine.ranks_per_node = ranks_per_node;
  machine.memory_bytes = std::uint64_t{64} << 30;
  return machine;
}

double bytes_of(const Machine& machine, parallel::Strategy strategy) {
  for (const auto& each : forecast(mlp_recipe(), mlp_work(), machine).products)
    if (each.product.strategy == strategy) return each.node_bytes;
  return 0;
}

TEST(Calibration, IsTheSameAfterAFile) {
  Calibration calibration;
  calibration.kind = {"a \"quick\" processor", 4, "reference"};
  calibration.memory_bytes = 1ULL << 40;
  calibration.costs.emplace().between.latency = 1.0 / 3;
  calibration.add(measured("x", 1, 0.1));
  calibration.add(measured("x", 2, 0.2));
  calibration.add(measured("x", 2, 0.3));  // in place of the one before
  const auto read = calibration_from(to_json(calibration));
  EXPECT_EQ(read.kind, calibration.kind);
  EXPECT_EQ(read.costs, calibration.costs);
  EXPECT_EQ(read.works, calibration.works);
  EXPECT_EQ(read.works.size(), 2);
  EXPECT_EQ(read.memory_bytes, calibration.memory_bytes);
}

TEST(Calibration, TakesTheNearestNumberOfRanks) {
  Calibration calibration;
  calibration.add(measured("x", 1, 0.1));
  calibration.add(measured("x", 4, 0.2));
  EXPECT_EQ(calibration.find("x", 8)->ranks, 4);
  EXPECT_EQ(calibration.find("x", 2)->ranks, 1);
  EXPECT_EQ(calibration.find("y", 1), nullptr);
  EXPECT_DOUBLE_EQ(calibration.flops_per_second(4), 9e9 / 0.6);
}

TEST(Calibration, DamagedTextsAreRefused) {
  for (const char* text : {"", "[]", "{}", R"({"what": "distdl calibration", "version": 99})",
                           R"({"what": "distdl calibration", "version": 1, "processor": 1})"})
    EXPECT_THROW(calibration_from(text), ConfigError) << text;
}

TEST(Forecast, TakesMeasuredTimesWhereThereAreSome) {
  const auto work = mlp_work();
  auto machine = machine_of(1);
  machine.node_mtbf_hours = 0;
  machine.calibration.emplace().add(measured(identity_of_work(mlp_recipe(), work), 1, 0.5));
  const auto result = forecast(mlp_recipe(), work, machine);
  EXPECT_DOUBLE_EQ(result.chosen().step.seconds, 12 * 1.5 + 11 * 0.125 + 0.25);
  EXPECT_GT(result.chosen().memory.program, 5e7);
  EXPECT_EQ(result.steps, 1000);
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_DOUBLE_EQ(result.chosen().efficiency, 1);
  EXPECT_EQ(forecast(mlp_recipe(), work, machine_of(1)).warnings.size(), 1);
  auto recomputes = mlp_recipe();
  recomputes.parallel.recompute = "blocks";
  EXPECT_THAT(forecast(recomputes, work, machine).warnings,
              Contains(HasSubstr("parallel.recompute = \"blocks\" is not")));
}

TEST(Forecast, ChoosesShardsWhereReplicasDoNotFit) {
  auto machine = machine_of(4);
  EXPECT_EQ(forecast(mlp_recipe(), mlp_work(), machine).products.size(), kProducts.size());
  const double replicas = bytes_of(machine, parallel::Strategy::replicas);
  const double sharded = bytes_of(machine, parallel::Strategy::sharded);
  ASSERT_LT(sharded, replicas);
  machine.memory_bytes = static_cast<std::uint64_t>((sharded + replicas) / 2);
  const auto result = forecast(mlp_recipe(), mlp_work(), machine);
  EXPECT_EQ(result.chosen().product.strategy, parallel::Strategy::sharded);
  EXPECT_THAT(result.reason, HasSubstr("replicas does not fit"));
}

TEST(Forecast, KnowsRanksThatHoldTheWholeModel) {
  for (const auto key : {&parallel::Options::pipeline_ranks, &parallel::Options::tensor_ranks}) {
    auto recipe = mlp_recipe();
    recipe.parallel.tensor_shards = 2;
    recipe.parallel.*key = 2;
    EXPECT_THROW(forecast(recipe, mlp_work(), machine_of(2)), ConfigError);
  }
}

TEST(Forecast, NamesTheNearestChoice) {
  const auto text_of = [](const Machine& machine) {
    try {
      forecast(mlp_recipe(), mlp_work(), machine);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(text_of(machine_of(7, 2)), HasSubstr("--nodes 6"));
  auto machine = machine_of(1, 4);
  machine.memory_bytes = static_cast<std::uint64_t>(bytes_of(machine, parallel::Strategy::sharded) * 0.7);
  EXPECT_THAT(text_of(machine), HasSubstr("--ranks-per-node 2"));
  machine = machine_of(1);
  machine.memory_bytes = static_cast<std::uint64_t>(bytes_of(machine, parallel::Strategy::replicas) - 4e6);
  EXPECT_THAT(text_of(machine), HasSubstr("--nodes 2 with parallel.strategy = "));
}

TEST(Forecast, RepeatsBySeed) {
  auto machine = machine_of(3);
  machine.node_mtbf_hours = 0.01;
  machine.calibration.emplace().add(measured(identity_of_work(mlp_recipe(), mlp_work()), 1, 0.01));
  machine.calibration->works[0].work.spread = 0.05;
  const auto once = forecast(mlp_recipe(), mlp_work(), machine), again = forecast(mlp_recipe(), mlp_work(), machine);
  EXPECT_EQ(once.chosen().step.seconds, again.chosen().step.seconds);
  EXPECT_EQ(once.goodput.seconds, again.goodput.seconds);
  machine.seed = 2;
  EXPECT_NE(once.chosen().step.seconds, forecast(mlp_recipe(), mlp_work(), machine).chosen().step.seconds);
}
}  // namespace
}  // namespace distdl::forecast
