// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>
#include <string>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>
#include <distdl/train/state/identity.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {
namespace {
using enum parallel::Strategy;

/// The least memory of a rank in arenas, where all are on one node.
double arenas_of(parallel::Strategy strategy, int data, int devices = 1) {
  const auto model = model::describe_model({.name = "mlp", .hidden = {64}}, {1, 12, 12}, 4);
  const auto tensors = model::tensors_of(model);
  parallel::Options options{.microbatches = 4};
  options.strategy = strategy;
  options.local_sgd.groups = 2;
  const RanksOfMachine ranks{data, {.data = data}, true, devices};
  const auto bytes = way_of(strategy).memory({tensors, options, {.name = "adamw"}, ranks});
  EXPECT_LE(bytes.shared, bytes.all);
  return static_cast<double>(bytes.all) / static_cast<double>(bytes_of_arena(tensors));
}

TEST(Ways, HaveARowForEachStrategy) {
  std::set<parallel::Strategy> strategies;
  for (const Way& way : ways()) {
    EXPECT_TRUE(strategies.insert(way.strategy).second);
    EXPECT_EQ(&way_of(way.strategy), &way);
  }
  for (const auto& row : choices_of(automatic)) EXPECT_EQ(strategies.contains(row.value), row.value != automatic);
  EXPECT_EQ(way_of(automatic).strategy, replicas);
}

TEST(Ways, TakeTheMemoryOfTheirArenas) {
  EXPECT_EQ(arenas_of(replicas, 4), 4) << "parameters, gradients, two moments";
  EXPECT_EQ(arenas_of(replicas, 4, 3), 6) << "gradients of each device";
  EXPECT_EQ(arenas_of(sharded, 1), 4);
  EXPECT_NEAR(arenas_of(sharded, 4), 2.5, 0.01);
  EXPECT_LE(arenas_of(sharded_gradients, 4), arenas_of(sharded, 4));
  EXPECT_LE(arenas_of(sharded_parameters, 4), arenas_of(sharded_gradients, 4));
  EXPECT_EQ(arenas_of(local_sgd, 2), 5) << "of a round, gradients, and parameters and moments of a group";
  EXPECT_EQ(arenas_of(local_sgd, 1), 8) << "of two groups";
  EXPECT_GT(arenas_of(parameter_server, 2), 4);
}

TEST(Ways, LeaveTheKeysOfOthersOutOfAnIdentity) {
  const auto left = [](const parallel::Options& options) {
    std::map<std::string, std::string> identity;
    for (const Way& way : ways()) way.leave_out(options, identity);
    std::set<std::string> keys;
    for (const auto& [key, value] : identity) {
      EXPECT_EQ(value, "none");
      keys.insert(key.substr(key.find('.') + 1));
    }
    return keys;
  };
  const std::set<std::string> of_groups{"groups", "local_steps", "outer", "outer_learning_rate", "outer_momentum"};
  const std::set<std::string> of_servers{"server_mode", "delay_compensation", "staleness"};
  std::set<std::string> all = of_groups;
  all.insert(of_servers.begin(), of_servers.end());
  EXPECT_EQ(left({.strategy = replicas}), all);
  EXPECT_EQ(left({.strategy = local_sgd, .local_sgd = {.outer = parallel::Outer::nesterov}}), of_servers);
  EXPECT_EQ(left({.strategy = parameter_server, .servers = {.mode = parallel::server::Mode::bounded}}), of_groups);
  EXPECT_EQ(left({.strategy = parameter_server, .servers = {.mode = parallel::server::Mode::synchronous}}), all);
}

TEST(Ways, HaveNoKeysInTheIdentityOfOthers) {
  const std::set<std::string> keys{"groups",      "local_steps", "outer",       "outer_learning_rate", "outer_momentum",
                                   "server_mode", "staleness",   "compression", "delay_compensation"};
  std::set<std::string> usual;
  for (const auto& [key, value] : usual_properties())
    if (value == "none") usual.insert(key.substr(key.find('.') + 1));
  EXPECT_EQ(usual, keys) << "checkpoints have been written without these";
}

/// A key that only one way sets would be compared in one direction only, when another way resumes its checkpoint.
TEST(Ways, SetNoKeyThatOthersDoNotLeaveOut) {
  for (const Way& trains : ways())
    for (const Way& way : ways()) {
      std::map<std::string, std::string> identity;
      way.leave_out({.strategy = trains.strategy}, identity);
      for (const auto& [key, value] : identity) EXPECT_TRUE(usual_properties().contains(key)) << key;
    }
}

TEST(Ways, WhoseResultsDifferHaveDifferentIdentities) {
  std::set<std::map<std::string, std::string>> identities;
  std::set<std::string> results;
  for (const Way& way : ways()) {
    parallel::Options options{.strategy = way.strategy, .servers = {.mode = parallel::server::Mode::bounded}};
    std::map<std::string, std::string> identity;
    describe(options,
             [&](const std::string& key, const auto& value, const char*) { identity[key] = fmt::format("{}", value); });
    identity.erase("parallel.strategy");
    for (const Way& each : ways()) each.leave_out(options, identity);
    identities.insert(identity);
    const auto& row = parallel::row_of(way.strategy);
    results.insert(row.differs != nullptr ? std::string(row.name.name) : "that of replicas");
  }
  EXPECT_EQ(identities.size(), results.size());
}

TEST(Ways, RefuseWhatTheyExclude) {
  Recipe recipe;
  recipe.parallel.tensor_ranks = 2;
  EXPECT_NO_THROW(way_of(replicas).check(recipe));
  for (const auto strategy : {local_sgd, parameter_server}) {
    recipe.parallel.strategy = strategy;
    EXPECT_THROW(way_of(strategy).check(recipe), ConfigError);
  }
}

TEST(Ways, AdviseASmallerOne) {
  const auto advice = [](parallel::Strategy strategy, int pipeline = 1) {
    return way_of(strategy).smaller({.strategy = strategy}, {.pipeline = pipeline});
  };
  EXPECT_THAT(advice(replicas), ::testing::HasSubstr("\"sharded\""));
  EXPECT_THAT(advice(sharded), ::testing::HasSubstr("\"sharded_gradients\""));
  EXPECT_THAT(advice(sharded, 2), ::testing::HasSubstr("\"sharded_parameters\""));
  EXPECT_EQ(advice(sharded_parameters), "");
  EXPECT_THAT(advice(local_sgd), ::testing::HasSubstr("\"replicas\""));
}
}  // namespace
}  // namespace distdl::train
