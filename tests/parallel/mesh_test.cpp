// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Mesh, PipelinesAreNeighbours) {
  world::run_threads(6, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.data = 3, .pipeline = 2});
      const int rank = communicator.rank().value;
      EXPECT_EQ(mesh.data().size(), 3);
      EXPECT_EQ(mesh.data().rank().value, rank / 2);
      EXPECT_EQ(mesh.pipeline().size(), 2);
      EXPECT_EQ(mesh.pipeline().rank().value, rank % 2);
    });
  });
}

TEST(Mesh, WithoutPipelinesAllRanksHoldTheSame) {
  world::run_threads(2, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.data = 2});
      EXPECT_FALSE(mesh.has_pipeline());
      EXPECT_EQ(&mesh.data(), &communicator);
    });
  });
}

TEST(Mesh, TensorGroupsAreTheNearestNeighbours) {
  world::run_threads(8, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.data = 2, .pipeline = 2, .tensor = 2});
      const int rank = communicator.rank().value;
      EXPECT_EQ(mesh.tensor().size(), 2);
      EXPECT_EQ(mesh.tensor().rank().value, rank % 2);
      EXPECT_EQ(mesh.pipeline().rank().value, rank / 2 % 2);
      EXPECT_EQ(mesh.data().size(), 2);
      EXPECT_EQ(mesh.data().rank().value, rank / 4);
      EXPECT_EQ(mesh.replica().size(), 4);
      EXPECT_EQ(mesh.replica().rank().value, rank % 4);
    });
  });
}

TEST(Mesh, RanksThatShareSequencesAreNeighbours) {
  world::run_threads(4, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.data = 2, .context = 2});
      const int rank = communicator.rank().value;
      EXPECT_EQ(mesh.context().size(), 2);
      EXPECT_EQ(mesh.context().rank().value, rank % 2);
      EXPECT_EQ(mesh.data().rank().value, rank / 2);
      EXPECT_EQ(mesh.replica().rank().value, rank % 2);
      EXPECT_EQ(mesh.is_first_of_group(), rank % 2 == 0);
    });
  });
}

TEST(Mesh, OfAllKindsHasTensorGroupsWithinContextGroupsWithinPipelines) {
  world::run_threads(8, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.pipeline = 2, .tensor = 2, .context = 2});
      const int rank = communicator.rank().value;
      EXPECT_EQ(mesh.tensor().rank().value, rank % 2);
      EXPECT_EQ(mesh.context().rank().value, rank / 2 % 2);
      EXPECT_EQ(mesh.pipeline().rank().value, rank / 4);
      for (const auto* const group : {&mesh.tensor(), &mesh.context(), &mesh.pipeline()}) EXPECT_EQ(group->size(), 2);
      EXPECT_EQ(mesh.data().size(), 1);
      EXPECT_EQ(mesh.replica().size(), 8);
      EXPECT_EQ(mesh.is_first_of_group(), rank % 4 == 0);
    });
  });
}

Options pipelines_of(std::int64_t ranks) {
  return {.microbatches = 4, .pipeline_ranks = ranks};
}

std::string refusal_of(const Options& options, int ranks, int most_stages) try {
  degrees_of(options, ranks, most_stages);
  return "none";
} catch (const ConfigError& error) {
  return error.what();
}

TEST(Degrees, AreWhatTheOptionsAskFor) {
  EXPECT_EQ(degrees_of(pipelines_of(1), 4, 1), (Degrees{4, 1}));
  EXPECT_EQ(degrees_of(pipelines_of(2), 6, 2), (Degrees{3, 2}));
  EXPECT_EQ(degrees_of(pipelines_of(2), 8, 8), (Degrees{4, 2})) << "which is more ranks than microbatches";
}

TEST(Degrees, ARefusalNamesTheNearestChoice) {
  EXPECT_THAT(refusal_of(pipelines_of(4), 6, 8), AllOf(HasSubstr("6 ranks do not divide into pipelines of 4"),
                                                       HasSubstr("the nearest possible number is 3")));
  EXPECT_THAT(refusal_of(pipelines_of(4), 8, 3),
              AllOf(HasSubstr("divided into at most 3 stages"), HasSubstr("the nearest possible number is 2")));
  EXPECT_THAT(refusal_of(pipelines_of(2), 16, 8), AllOf(HasSubstr("only 4 microbatches (parallel.microbatches)"),
                                                        HasSubstr("the nearest possible number is 4")));
  EXPECT_THAT(refusal_of(pipelines_of(0), 2, 8), HasSubstr("must be at least 1"));
  EXPECT_THAT(refusal_of(pipelines_of(1), 7, 2), HasSubstr("; start 4 ranks"));
  Options interleaved = pipelines_of(4);
  interleaved.schedule = "interleaved";
  EXPECT_EQ(degrees_of(interleaved, 8, 8), (Degrees{2, 4}));
  EXPECT_THAT(refusal_of(interleaved, 8, 7), AllOf(HasSubstr("at most 7 stages, and each of so many ranks needs 2"),
                                                   HasSubstr("the nearest possible number is 2")));
  EXPECT_EQ(degrees_of(pipelines_of(1), 4, 1), (Degrees{4, 1})) << "one stage is enough for one rank";
  interleaved.interleave = 0;
  EXPECT_THAT(refusal_of(interleaved, 8, 8), HasSubstr("parallel.interleave is 0, but must be between 1 and"));
}

TEST(Degrees, OfContextGroupsAreAsNearAsPossible) {
  const Options options{.microbatches = 4, .context_chunks = 4, .context_ranks = 4};
  EXPECT_EQ(degrees_of(options, 8, 1), (Degrees{.data = 2, .context = 4}));
  EXPECT_THAT(refusal_of(options, 6, 1),
              AllOf(HasSubstr("parallel.context_ranks is 4, but 6 ranks do not divide into context groups of 4"),
                    HasSubstr("the nearest possible number is 3")));
  std::string reason;
  EXPECT_EQ(nearest_degrees(options, 3, 1, reason), (Degrees{.data = 1, .context = 3}));
  EXPECT_EQ(reason, "3 ranks do not divide into context groups of 4");
}

TEST(Degrees, OfContextGroupsInAProductAreAsNearAsPossible) {
  const Options options{
      .microbatches = 4, .tensor_shards = 4, .tensor_ranks = 2, .context_chunks = 4, .context_ranks = 2};
  EXPECT_EQ(degrees_of(options, 8, 1), (Degrees{.data = 2, .tensor = 2, .context = 2}));
  EXPECT_THAT(refusal_of(options, 6, 1),
              AllOf(HasSubstr("parallel.context_ranks is 2 and parallel.tensor_ranks is 2, but 6 ranks do not divide "
                              "into context groups of 2 times 2 ranks"),
                    HasSubstr("the nearest possible numbers are 3 and 1")));
}

TEST(Degrees, ARunGoesOnWithTheNearestOnes) {
  std::string reason;
  EXPECT_EQ(nearest_degrees(pipelines_of(2), 4, 8, reason), (Degrees{2, 2}));
  EXPECT_EQ(reason, "");
  EXPECT_EQ(nearest_degrees(pipelines_of(2), 3, 8, reason), (Degrees{1, 3})) << "the longer ones of two";
  EXPECT_EQ(reason, "3 ranks do not divide into pipelines of 2");
  EXPECT_EQ(nearest_degrees(pipelines_of(4), 2, 8, reason), (Degrees{1, 2}));
  EXPECT_THROW(nearest_degrees(pipelines_of(2), 7, 2, reason), ConfigError);
}

TEST(Degrees, OfTensorRanksAreTheNearestThatDivideTheRanks) {
  const Options options{.tensor_shards = 4, .tensor_ranks = 4};
  EXPECT_EQ(degrees_of(options, 8, 1), (Degrees{.data = 2, .tensor = 4}));
  EXPECT_THAT(refusal_of(options, 6, 1), AllOf(HasSubstr("parallel.tensor_ranks is 4"), HasSubstr("tensor groups of 4"),
                                               HasSubstr("the nearest possible number is 3")));
  std::string reason;
  EXPECT_EQ(nearest_degrees({}, 6, 1, reason), (Degrees{.data = 6}));
  EXPECT_EQ(nearest_degrees(options, 8, 1, reason), (Degrees{.data = 2, .tensor = 4}));
  EXPECT_EQ(reason, "");
  EXPECT_EQ(nearest_degrees(options, 6, 1, reason), (Degrees{.data = 2, .tensor = 3}));
  EXPECT_EQ(nearest_degrees(options, 7, 1, reason), (Degrees{.data = 7})) << "there are 4 shards";
  EXPECT_EQ(nearest_degrees(options, 2, 1, reason), (Degrees{.tensor = 2}));
  EXPECT_EQ(reason, "2 ranks do not divide into tensor groups of 4");
}

TEST(Degrees, OfAProductAreTheNearestInTheNumberOfRanks) {
  const Options options{.tensor_shards = 4, .tensor_ranks = 2, .pipeline_ranks = 2};
  EXPECT_EQ(degrees_of(options, 8, 8), (Degrees{.data = 2, .pipeline = 2, .tensor = 2}));
  EXPECT_THAT(refusal_of(options, 6, 8),
              AllOf(HasSubstr("parallel.pipeline_ranks is 2 and parallel.tensor_ranks is 2, but 6 ranks do not divide "
                              "into pipelines of 2 times 2 ranks"),
                    HasSubstr("the nearest possible numbers are 3 and 1")));
  EXPECT_THAT(refusal_of(options, 8, 1), AllOf(HasSubstr("at most 1 stages"), HasSubstr("numbers are 1 and 4")));
  std::string reason;
  EXPECT_EQ(nearest_degrees(options, 8, 8, reason), (Degrees{.data = 2, .pipeline = 2, .tensor = 2}));
  EXPECT_EQ(reason, "");
  EXPECT_EQ(nearest_degrees(options, 2, 8, reason), (Degrees{.pipeline = 2}));
  EXPECT_EQ(nearest_degrees(options, 1, 8, reason), (Degrees{}));
}

TEST(Stages, DoNotCutTheShardsOfALayer) {
  const auto gpt = model::divide(
      model::describe_model({.name = "gpt", .layers = 4, .width = 64, .heads = 4, .context = 16}, {16}, 8), 4);
  EXPECT_EQ(most_stages(gpt), 12);
  for (const auto& stage : stages_of(gpt, 12)) {
    const auto& first = gpt.layers[stage.first];
    EXPECT_TRUE(!first.branch || (first.shard && *first.branch == 0)) << first.name;
  }
}

/// Of four shards the third of three ranks has two, so that what is not divided is less of what its layers cost.
TEST(Stages, OfATensorGroupAreTheSameOnAllRanks) {
  const model::Options options{.name = "gpt", .layers = 4, .width = 16, .heads = 4, .context = 16};
  const auto whole = model::divide(model::describe_model(options, {16}, 301), 4);
  const auto one = model::branches_of(whole, 0, 1), two = model::branches_of(whole, 2, 2);
  const auto firsts_of = [](const model::Description& some, const std::vector<model::LayerRange>& stages) {
    std::vector<std::string> names;
    for (const auto& stage : stages) {
      const auto& layer = some.layers[stage.first];
      names.push_back(layer.shard ? layer.shard->of : layer.name);
    }
    return names;
  };
  EXPECT_NE(firsts_of(one, stages_of(one, 4)), firsts_of(two, stages_of(two, 4)));
  const auto expected = firsts_of(whole, stages_of(whole, 4));
  EXPECT_EQ(firsts_of(one, stages_of(whole, one, 4, {})), expected);
  EXPECT_EQ(firsts_of(two, stages_of(whole, two, 4, {})), expected);
}

TEST(Stages, AreAsEqualAsTheirLayersPermit) {
  const auto gpt = model::describe_model({.name = "gpt", .layers = 4, .width = 64, .heads = 2, .context = 16}, {16}, 8);
  EXPECT_EQ(most_stages(gpt), 12);
  const auto stages = stages_of(gpt, 2);
  EXPECT_EQ(stages[0].first, 0u);
  EXPECT_EQ(stages[1].end, gpt.layers.size());
  EXPECT_EQ(gpt.layers[stages[1].first].name, "h.2.ln_1");
  EXPECT_EQ(stages_of(gpt, 12).size(), 12u);
  EXPECT_THROW(stages_of(gpt, 13), ConfigError);
}

TEST(Stages, AreBalancedByCostsWhereThereAreSome) {
  const auto gpt = model::describe_model({.name = "gpt", .layers = 4, .width = 64, .heads = 2, .context = 16}, {16}, 8);
  const auto layers_of = [&](const std::vector<std::int64_t>& by_hand, const std::vector<double>& costs) {
    return stage_layers_of(gpt, stages_of(gpt, 2, by_hand, costs));
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(layers_of({}, {}), (Sizes{6, 6})) << "counted";
  std::vector<double> costs(12, 0.5);
  EXPECT_EQ(layers_of({}, costs), (Sizes{6, 6}));
  costs.front() = 4.5;
  EXPECT_EQ(layers_of({}, costs), (Sizes{2, 10}));
  std::ranges::reverse(costs);
  EXPECT_EQ(layers_of({}, costs), (Sizes{10, 2}));
  EXPECT_EQ(layers_of({4, 8}, costs), (Sizes{4, 8})) << "by hand";
  costs.pop_back();
  EXPECT_THROW(layers_of({}, costs), InternalError);
}

TEST(Stages, MayBeChosenByHand) {
  const auto gpt = model::describe_model({.name = "gpt", .layers = 4, .width = 64, .heads = 2, .context = 16}, {16}, 8);
  EXPECT_EQ(gpt.layers[stages_of(gpt, 2, {4, 8})[1].first].name, "h.1.ln_1");
  const auto refusal = [&](std::vector<std::int64_t> layers) -> std::string {
    try {
      check_stages({.pipeline_ranks = 2, .stage_layers = std::move(layers)}, gpt);
      return "none";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal({3, 9}), "none");
  EXPECT_EQ(refusal({}), "none");
  EXPECT_THAT(refusal({3, 8}),
              AllOf(HasSubstr("parallel.stage_layers is [3, 8]"), HasSubstr("at least 1 of the 12 layers"),
                    HasSubstr("all together 12"), HasSubstr("the nearest possible choice is [3, 9]")));
  EXPECT_THAT(refusal({12}), AllOf(HasSubstr("there are 2 stages"), HasSubstr("choice is [6, 6]")));
}

TEST(Stages, LieOnTheRanksInTurn) {
  const auto gpt = model::describe_model({.name = "gpt", .layers = 4, .width = 64, .heads = 2, .context = 16}, {16}, 8);
  Options options{.pipeline_ranks = 4, .interleave = 3};
  options.schedule = "interleaved";
  EXPECT_EQ(stages_per_rank(options, 4), 3);
  EXPECT_EQ(stages_per_rank(options, 1), 1);
  check_stages(options, gpt);
  const auto stages = stages_of(gpt, 12);
  const auto own = stages_of_rank(stages, 1, 4);
  ASSERT_EQ(own.size(), 3u);
  EXPECT_EQ(own[2].first, stages[9].first);
  options.interleave = 4;
  try {
    check_stages(options, gpt);
    FAIL() << "16 stages of 12 layers";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the nearest possible number is parallel.interleave = 3"));
  }
}
}  // namespace
}  // namespace distdl::parallel
