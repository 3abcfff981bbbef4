// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using ::testing::HasSubstr;

std::pair<int, int> counted(const config::Job& job, int tasks, int nodes) {
  const auto ranks = count_ranks(job, tasks, nodes);
  return {ranks.at_start, ranks.at_most};
}

TEST(RankCounts, OfAJobWithSparesAndNodesThatJoin) {
  config::Job job;
  EXPECT_EQ(counted(job, 8, 4), std::pair(8, 8));
  job.agent.most_nodes = 6;
  EXPECT_EQ(counted(job, 8, 4), std::pair(8, 12));
  job.agent.spares = 1;
  EXPECT_EQ(counted(job, 8, 4), std::pair(6, 12));
  EXPECT_EQ(counted(job, 8, 0), std::pair(8, 8)) << "it is not known on how many nodes";
  job.agent.recovery = agent::Recovery::relaunch;
  EXPECT_EQ(counted(job, 8, 4), std::pair(8, 8)) << "without agents there are no spares, and nobody joins";
}

TEST(RankCounts, RefusesWhatCannotBe) {
  config::Job job;
  job.agent.spares = 2;
  EXPECT_THROW(count_ranks(job, 2, 2), ConfigError);
  job.agent.spares = 0;
  job.agent.most_nodes = 16384;
  EXPECT_THROW(count_ranks(job, 1 << 20, 2), ConfigError) << "2 ** 33 ranks";
}

TEST(Plans, ThatTheRanksChooseNeedOnlyWholeContextGroups) {
  config::Job job;
  auto& options = job.recipe.parallel;
  options = {.strategy = "auto", .microbatches = 2, .context_chunks = 2, .context_ranks = 2};
  EXPECT_NO_THROW(check_plan(job, {8, 8})) << "more ranks may hold the model together";
  EXPECT_THROW(check_plan(job, {3, 3}), ConfigError);
  options.strategy = "replicas";
  EXPECT_THROW(check_plan(job, {8, 8}), ConfigError);
}

std::string plan_problem(const config::Job& job, const RankCounts& ranks, int most_stages) try {
  check_plan(job, ranks, most_stages);
  return "";
} catch (const ConfigError& error) {
  return error.what();
}

TEST(Plans, ServersHaveNodesForThemselvesAtTheFirstStart) {
  config::Job job;
  job.recipe.parallel.strategy = "parameter_server";
  job.recipe.parallel.servers.placement = "own_nodes";
  EXPECT_EQ(plan_problem(job, count_ranks(job, 4, 2), kAnyStages), "");
  EXPECT_EQ(plan_problem(job, count_ranks(job, 4, 0), kAnyStages), "") << "it is not known on how many nodes";
  auto ranks = count_ranks(job, 2, 1);
  EXPECT_THAT(plan_problem(job, ranks, kAnyStages), HasSubstr("the job has 2 ranks on 1 node: ask for more nodes"));
  ranks.goes_on = true;
  EXPECT_EQ(plan_problem(job, ranks, kAnyStages), "") << "a run that has trained goes on with what is left";
  job.recipe.parallel.servers.tasks = job.recipe.parallel.servers.workers = 1;
  EXPECT_THAT(plan_problem(job, {3, 3}, kAnyStages), HasSubstr("there are 3 ranks"));
}

TEST(Plans, ARefusalKnowsTheStagesOfTheModel) {
  config::Job job;
  auto& options = job.recipe.parallel;
  options = {.microbatches = 6, .pipeline_ranks = 2};
  EXPECT_THAT(plan_problem(job, {3, 3}, kAnyStages), HasSubstr("the nearest possible number is 3"));
  EXPECT_THAT(plan_problem(job, {3, 3}, 2), HasSubstr("the nearest possible number is 1"));
  options.pipeline_ranks = 99;
  EXPECT_THAT(plan_problem(job, {99, 99}, 2), HasSubstr("start 12 ranks with parallel.pipeline_ranks = 2"));
  options.pipeline_ranks = 2;
  EXPECT_EQ(plan_problem(job, {12, 12}, 2), "");
}

TEST(Plans, StagesOfEachRankAreLeftToTheCheckOfStages) {
  config::Job job;
  auto& options = job.recipe.parallel;
  options = {.microbatches = 6, .pipeline_ranks = 2};
  options.schedule = "interleaved";
  options.interleave = 99;
  EXPECT_EQ(plan_problem(job, {2, 2}, 2), "") << "parallel.interleave = 1 is nearer than another number of ranks";
  EXPECT_THAT(plan_problem(job, {3, 3}, 2), HasSubstr("the nearest possible number is 1"));
}

TEST(Plans, OfARunThatGoesOnNeedOnlyBePossible) {
  config::Job job;
  job.recipe.parallel = {.microbatches = 2, .pipeline_ranks = 2};
  EXPECT_NE(plan_problem(job, {3, 3}, 3), "");
  EXPECT_EQ(plan_problem(job, {3, 3, true}, 3), "") << "one pipeline of 3";
  EXPECT_THAT(plan_problem(job, {5, 5, true}, 3), HasSubstr("start 4 ranks"));
}
}  // namespace
}  // namespace distdl::app
