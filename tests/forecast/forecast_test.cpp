// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>

namespace distdl::forecast {
namespace {
using ::testing::Contains;
using ::testing::ElementsAre;
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
    if (each.product.strategy == strategy && each.product.degrees.parts() == 1) return each.node_bytes;
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
  calibration.nap_seconds = 0.25;
  calibration.add(MeasuredPeak{1, 5e10});
  calibration.add(MeasuredPeak{1, 6e10});  // in place of the one before
  auto text = to_json(calibration);
  const auto read = calibration_from(text);
  EXPECT_EQ(read.nap_seconds, 0.25);
  EXPECT_EQ(read.peaks, (std::vector{MeasuredPeak{1, 6e10}}));
  text.replace(text.find("nap_seconds"), 11, "of_a_later");
  EXPECT_EQ(calibration_from(text).nap_seconds, Calibration().nap_seconds) << "of an older version";
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

TEST(Calibration, APeakIsThatOfTheNearestNumberOfRanks) {
  Calibration calibration;
  EXPECT_EQ(calibration.peak_flops(1), 0);
  calibration.add(MeasuredPeak{1, 5e10});
  calibration.add(MeasuredPeak{8, 3e10});
  EXPECT_EQ(calibration.peak_flops(2), 5e10);
  EXPECT_EQ(calibration.peak_flops(7), 3e10);
  EXPECT_EQ(calibration_from(to_json(Calibration())).peak_flops(1), 0);
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
}

const ProductForecast& product_of(const Forecast& all, parallel::Degrees degrees,
                                  parallel::Strategy strategy = parallel::Strategy::replicas, bool recomputes = false) {
  const Product wanted{degrees, strategy, recomputes};
  const auto found = std::ranges::find(all.products, wanted, &ProductForecast::product);
  EXPECT_NE(found, all.products.end()) << name_of(wanted);
  return *found;
}

TEST(Forecast, ChoosesWhatFits) {
  auto machine = machine_of(4);
  const double replicas = bytes_of(machine, parallel::Strategy::replicas);
  const double sharded = bytes_of(machine, parallel::Strategy::sharded);
  ASSERT_LT(sharded, replicas);
  machine.memory_bytes = static_cast<std::uint64_t>((sharded + replicas) / 2);
  const auto result = forecast(mlp_recipe(), mlp_work(), machine);
  EXPECT_NE(result.chosen().product.strategy, parallel::Strategy::replicas);
  EXPECT_FALSE(result.products.back().fits);  // those that do not are the last ones
  EXPECT_THAT(result.reason, HasSubstr("the job file's, 4x1x1 replicas, blocks, does not fit"));
  EXPECT_THAT(keys_of(result.chosen().product), HasSubstr("parallel.strategy = \"sharded"));
}

/// A gpt in four tensor shards, of eight layers.
Workload gpt_work(std::int64_t layers = 8, std::int64_t vocabulary = 64) {
  Workload work;
  const model::Options options{.name = "gpt", .layers = layers, .width = 64, .heads = 4, .context = 32};
  work.model = model::divide(model::describe_model(options, {32}, vocabulary), 4);
  work.tensors = model::tensors_of(work.model);
  work.samples = 9600;
  work.sample_bytes = 4 * 32;
  work.labels = 32;
  return work;
}
train::Recipe gpt_recipe() {
  auto recipe = mlp_recipe();
  recipe.parallel.tensor_shards = 4;
  return recipe;
}

TEST(Products, AreAllThatTheRanksCanForm) {
  const auto work = gpt_work();
  auto recipe = gpt_recipe();
  for (const auto& optim : {optim::Options{}, optim::Options{.name = "lamb", .clip_norm = 1}}) {
    recipe.optim = optim;
    std::vector<std::string> names;
    for (const auto& product : products_of(recipe, work.model, 4)) names.push_back(name_of(product));
    EXPECT_THAT(names,
                ElementsAre("4x1x1 replicas", "4x1x1 sharded", "4x1x1 sharded_gradients", "4x1x1 sharded_parameters",
                            "2x1x2 replicas", "2x1x2 sharded", "2x1x2 sharded_gradients", "2x1x2 sharded_parameters",
                            "2x2x1 replicas", "2x2x1 sharded", "2x2x1 sharded_parameters", "1x1x4 replicas",
                            "1x2x2 replicas", "1x4x1 replicas"));
  }
  recipe.parallel.microbatches = 2;
  for (const auto& product : products_of(recipe, work.model, 4)) EXPECT_LE(product.degrees.data, 2);
}

TEST(Products, TheJobsOwnIsTheNearestPossible) {
  auto recipe = gpt_recipe();
  recipe.parallel.pipeline_ranks = 3;
  std::string reason;
  EXPECT_EQ(own_product(recipe, gpt_work().model, 6, reason)->degrees, (parallel::Degrees{2, 3, 1}));
  EXPECT_EQ(reason, "");
  EXPECT_EQ(own_product(recipe, gpt_work().model, 4, reason)->degrees, (parallel::Degrees{1, 4, 1}));
  EXPECT_THAT(reason, HasSubstr("4 ranks do not divide"));
  const auto result = forecast(recipe, gpt_work(), machine_of(4));
  EXPECT_EQ(result.products[result.own.value()].product.degrees.pipeline, 4);
  EXPECT_THAT(result.warnings, Contains(HasSubstr("4 ranks do not divide into pipelines of 3")));
}

TEST(Forecast, WarnsOfATensorGroupOnSeveralNodes) {
  auto recipe = gpt_recipe();
  recipe.parallel.tensor_ranks = 2;
  EXPECT_THAT(forecast(recipe, gpt_work(), machine_of(2, 3)).warnings,
              Contains(HasSubstr("3x1x2 replicas: the tensor group of ranks 2 to 3 lies on node 0, node 1")));
  EXPECT_THAT(forecast(recipe, gpt_work(), machine_of(1, 4)).warnings,
              ::testing::Not(Contains(HasSubstr("tensor group of ranks"))));
}

TEST(Forecast, APipelineTakesWhatItsScheduleDoes) {
  const auto work = gpt_work();
  auto machine = machine_of(1, 4);
  auto recipe = gpt_recipe();
  auto known = measured(identity_of_work(recipe, work), 4, 1);
  known.work.finals.clear();
  known.work.add = known.work.update = 0;
  machine.calibration.emplace().add(known);
  const auto all = forecast(recipe, work, machine);
  const double alone = 12 * 3;
  const auto& pipeline = product_of(all, {1, 4, 1});
  EXPECT_GT(pipeline.step.seconds, alone / 4 * 15 / 12);  // 12 microbatches in 4 equal stages, at least
  EXPECT_LT(pipeline.step.seconds, alone / 4 * 15 / 12 * 1.6);
  EXPECT_NEAR(pipeline.step.compute, alone / 4, 0.1);
  EXPECT_LT(product_of(all, {1, 1, 4}).step.seconds, alone / 2);  // most is in the layers that are divided
  recipe.parallel.pipeline_ranks = 4;
  recipe.parallel.schedule = parallel::pipeline::Algorithm::gpipe;
  const auto gpipe = forecast(recipe, work, machine);
  EXPECT_GT(product_of(gpipe, {1, 4, 1}).memory.network, 2 * pipeline.memory.network);  // of all 12 microbatches
  recipe.parallel.recompute = parallel::Recompute::blocks;
  const auto again = forecast(recipe, work, machine);
  const auto& less = product_of(again, {1, 4, 1}, parallel::Strategy::replicas, true);
  EXPECT_LT(less.memory.network, 0.8 * product_of(again, {1, 4, 1}).memory.network);
  EXPECT_GT(less.step.seconds, product_of(again, {1, 4, 1}).step.seconds);
  EXPECT_EQ(again.products[again.own.value()].product, less.product);
}

TEST(Forecast, PartsOfAModelTakePartOfTheState) {
  const auto all = forecast(gpt_recipe(), gpt_work(), machine_of(8));
  const auto& whole = product_of(all, {8, 1, 1});
  for (const auto& degrees : {parallel::Degrees{4, 2, 1}, {4, 1, 2}, {2, 2, 2}, {2, 4, 1}, {2, 1, 4}}) {
    const auto& part = product_of(all, degrees);
    EXPECT_LT(part.memory.moments, 1.5 / degrees.parts() * whole.memory.moments) << name_of(part.product);
    EXPECT_GT(part.memory.moments, 0.99 / degrees.parts() * whole.memory.moments) << name_of(part.product);
  }
  const auto& sharded = product_of(all, {2, 4, 1}, parallel::Strategy::sharded);
  EXPECT_NEAR(sharded.memory.moments / product_of(all, {2, 4, 1}).memory.moments, 0.5, 0.1);
  auto recipe = gpt_recipe();
  recipe.parallel.microbatches = 8;  // one of each rank, whose gradients are given back
  const auto eight = forecast(recipe, gpt_work(), machine_of(8));
  EXPECT_LT(product_of(eight, {8, 1, 1}, parallel::Strategy::sharded_gradients).memory.gradients,
            0.7 * product_of(eight, {8, 1, 1}, parallel::Strategy::sharded).memory.gradients);
  const auto &gradients = product_of(eight, {8, 1, 1}, parallel::Strategy::sharded_gradients),
             &parameters = product_of(eight, {8, 1, 1}, parallel::Strategy::sharded_parameters);
  EXPECT_LT(parameters.memory.parameters, 0.7 * gradients.memory.parameters);
  EXPECT_EQ(parameters.memory.gradients, gradients.memory.gradients);
  EXPECT_NEAR(parameters.sent_bytes / gradients.sent_bytes, 1.5, 0.1);  // two gathers for one
}

TEST(Forecast, RanksOfANodeStageWhatTheyCannotReadOfEachOther) {
  auto recipe = gpt_recipe();
  recipe.parallel.microbatches = 8;
  const auto all = forecast(recipe, gpt_work(), machine_of(1, 8));
  const double shared = product_of(all, {8, 1, 1}, parallel::Strategy::sharded).memory.sums;
  EXPECT_GT(product_of(all, {8, 1, 1}, parallel::Strategy::sharded_gradients).memory.sums, shared);
  EXPECT_GT(product_of(all, {8, 1, 1}, parallel::Strategy::sharded_parameters).memory.sums, shared);
}

TEST(Forecast, ATensorRankHasItsSliceOfTheLogits) {
  const auto all = forecast(gpt_recipe(), gpt_work(1, 8192), machine_of(4));
  EXPECT_LT(product_of(all, {1, 1, 4}).memory.network, 0.35 * product_of(all, {4, 1, 1}).memory.network);
}

TEST(Forecast, RanksThatShareSequencesHavePartOfTheirMemoryAndTime) {
  auto recipe = gpt_recipe();
  recipe.parallel.context_chunks = 4;
  auto machine = machine_of(8);
  auto known = measured(identity_of_work(recipe, gpt_work()), 1, 0.5);
  known.work.finals.clear();  // so that stages are counted
  machine.calibration.emplace().add(known);
  const auto alone = product_of(forecast(recipe, gpt_work(), machine), {8, 1, 1});
  recipe.parallel.context_ranks = 2;
  const auto all = forecast(recipe, gpt_work(), machine);
  const auto& shared = product_of(all, {4, 1, 1, 2});
  EXPECT_LT(shared.memory.network, 0.7 * alone.memory.network);
  EXPECT_LT(product_of(all, {2, 2, 1, 2}).memory.moments, 0.6 * shared.memory.moments);
  const double share = shared.step.compute / alone.step.compute;
  EXPECT_GT(share, 1) << "as many tokens, and the exchanges";
  EXPECT_LT(share, 1.2);
  EXPECT_EQ(name_of(all.chosen().product).substr(5, 3), "x2 ");
  EXPECT_THAT(
      [&] { forecast(recipe, gpt_work(), machine_of(3)); },
      testing::ThrowsMessage<ConfigError>(HasSubstr("3 ranks do not divide into context groups of 2; the nearest")));
}

TEST(Forecast, NamesNodesWhoseRanksFormContextGroups) {
  auto recipe = gpt_recipe();
  recipe.parallel.microbatches = 5;
  recipe.parallel.context_chunks = recipe.parallel.context_ranks = 2;
  EXPECT_THAT([&] { forecast(recipe, gpt_work(), machine_of(62)); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("the nearest choice is --nodes 10,")));
  EXPECT_NO_THROW(forecast(recipe, gpt_work(), machine_of(10)));
}

TEST(Forecast, TakesTheMemoryOfLongSchedulesFromShorterOnes) {
  auto recipe = gpt_recipe();
  recipe.parallel.pipeline_ranks = 4;
  const auto seconds = [&](std::int64_t microbatches) {
    recipe.parallel.microbatches = microbatches;
    return product_of(forecast(recipe, gpt_work(), machine_of(4)), {1, 4, 1}).step.seconds;
  };
  EXPECT_NEAR(seconds(1 << 16) / seconds(1 << 14), 4, 0.01);  // the first one is not simulated as a whole
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
  EXPECT_THAT(text_of(machine_of(70, 2)), HasSubstr("--nodes 6"));
  auto machine = machine_of(1, 4);
  machine.memory_bytes = static_cast<std::uint64_t>(bytes_of(machine, parallel::Strategy::sharded) * 0.7);
  EXPECT_THAT(text_of(machine), HasSubstr("3 ranks on each node with parallel.strategy"));
  machine = machine_of(1);
  machine.memory_bytes = static_cast<std::uint64_t>(bytes_of(machine, parallel::Strategy::replicas) - 4e6);
  EXPECT_THAT(text_of(machine), HasSubstr("2 nodes with parallel.strategy = "));
}

TEST(Forecast, RefusesParameterServers) {
  auto recipe = mlp_recipe();
  recipe.parallel.strategy = parallel::Strategy::parameter_server;
  try {
    forecast(recipe, mlp_work(), machine_of(2));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--set parallel.strategy=replicas"));
  }
}

/// Ranks with a microbatch of 3 ms each, and a link so slow that nothing else counts.
Machine machine_with_slow_link(int nodes) {
  auto machine = machine_of(nodes);
  machine.rate = 1e6;
  machine.calibration.emplace().add(measured(identity_of_work(mlp_recipe(), mlp_work()), 1, 0.001));
  auto& work = machine.calibration->works[0].work;
  work.add = work.update = 1e-4;
  work.finals.clear();
  return machine;
}

ProductForecast own_forecast(const train::Recipe& recipe, const Machine& machine) {
  const auto all = forecast(recipe, mlp_work(), machine);
  return all.products.at(all.own.value());
}

TEST(Forecast, LocalSgdSendsOnceARound) {
  auto recipe = mlp_recipe();
  recipe.parallel.microbatches = 16;  // two ranks have whole branches of the sum
  const auto machine = machine_with_slow_link(2);
  const auto replicas = own_forecast(recipe, machine);
  recipe.parallel.strategy = parallel::Strategy::local_sgd;
  recipe.parallel.local_sgd = {.groups = 2, .steps = 8};
  const auto each = own_forecast(recipe, machine);
  EXPECT_NEAR(each.step.seconds, replicas.step.seconds / 8, 0.1 * replicas.step.seconds / 8);
  EXPECT_NEAR(each.sent_bytes, replicas.sent_bytes / 8, 0.01 * replicas.sent_bytes);
  EXPECT_GT(each.node_bytes, replicas.node_bytes);
  recipe.parallel.compression.encoding = parallel::Compression::int8;
  EXPECT_NEAR(own_forecast(recipe, machine).step.seconds, each.step.seconds / 4, 0.15 * each.step.seconds / 4);
}

TEST(Forecast, CodesSendFewerBytes) {
  auto recipe = mlp_recipe();
  recipe.parallel.microbatches = 16;
  recipe.optim.clip_norm = 1;
  const auto machine = machine_with_slow_link(2);
  const auto seconds = [&](parallel::Strategy strategy, bool of_parameters) {
    recipe.parallel.strategy = strategy;
    recipe.parallel.compression.of_parameters = of_parameters;
    return own_forecast(recipe, machine).step.seconds;
  };
  using enum parallel::Strategy;
  const double exact = seconds(replicas, false);
  recipe.parallel.compression.encoding = parallel::Compression::int8;
  EXPECT_NEAR(seconds(replicas, false) / exact, 2.0 / 8, 0.03);
  EXPECT_NEAR(seconds(sharded, false) / exact, 6.0 / 8, 0.03);
  EXPECT_NEAR(seconds(sharded, true) / exact, 3.0 / 8, 0.03);
}

TEST(Forecast, RepeatsBySeed) {
  auto machine = machine_of(3);
  machine.node_mtbf_hours = 0.01;
  machine.calibration.emplace().add(measured(identity_of_work(mlp_recipe(), mlp_work()), 1, 0.01));
  machine.calibration->works[0].work.spread = 0.05;
  const auto once = forecast(mlp_recipe(), mlp_work(), machine);
  std::size_t told = 0, all_products = 0;
  const auto again =
      forecast(mlp_recipe(), mlp_work(), machine, [&](std::size_t done, std::size_t all, const Product&) {
        EXPECT_EQ(done, told++);
        all_products = all;
      });
  EXPECT_EQ(told, all_products);
  EXPECT_GT(told, 1U);
  EXPECT_EQ(once.chosen().step.seconds, again.chosen().step.seconds);
  EXPECT_EQ(once.goodput.seconds, again.goodput.seconds);
  machine.seed = 2;
  EXPECT_NE(once.chosen().step.seconds, forecast(mlp_recipe(), mlp_work(), machine).chosen().step.seconds);
}
}  // namespace
}  // namespace distdl::forecast
