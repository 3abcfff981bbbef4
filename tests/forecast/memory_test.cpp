// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/forecast/memory.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/parts.hpp>
#include <distdl/parallel/stages.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::forecast {
namespace {
Workload lenet_work() {
  Workload work;
  work.model = model::describe_model({.name = "lenet"}, {1, 28, 28}, 10);
  work.tensors = model::tensors_of(work.model);
  work.sample_bytes = 4 * 28 * 28;
  return work;
}

TEST(DryAllocations, CountWhatExists) {
  const tensor::DryAllocations dry;
  auto one = tensor::allocate_host(100);
  EXPECT_EQ(dry.bytes(), 128);
  EXPECT_EQ(one.as<char>()[99], 0);
  one = tensor::allocate_host(std::size_t{1} << 40);  // more than machines have
  EXPECT_EQ(dry.bytes(), std::size_t{1} << 40);
  one = {};
  EXPECT_EQ(dry.bytes(), 0);
}

TEST(Memory, ANetworkIsCountedWithoutItsMemory) {
  const kernels::Options kernels{.backend = "reference"};
  const auto work = lenet_work();
  const auto small = make_dry_network(kernels, work.model, work.tensors, {});
  EXPECT_GT(small.bytes, 2.0 * 28 * 28 * 32 * 4);  // the first convolution's output and gradient
  EXPECT_NEAR(make_dry_network(kernels, work.model, work.tensors, {.samples = 1 << 20}).bytes / small.bytes / (1 << 20),
              1, 0.2);
  EXPECT_EQ(small.places.front(), work.tensors.layout.size());
  EXPECT_EQ(small.places.back(), 0);
}

TEST(Memory, ShardsKeepTheirPartOfTheMoments) {
  train::Recipe recipe;
  recipe.optim.name = "adamw";
  recipe.parallel = {.microbatches = 4, .microbatch_size = 2};
  const auto work = lenet_work();
  const double arena = static_cast<double>(work.tensors.layout.size()) * 4;
  RankPart part{.layout = work.tensors.layout, .range = {0, 1}, .hosts = 2};
  const auto replicas = state_memory(recipe, work, part);
  EXPECT_DOUBLE_EQ(replicas.parameters, arena);
  EXPECT_DOUBLE_EQ(replicas.moments, 2 * arena);
  EXPECT_NEAR(replicas.gradients, arena, 100);      // one microbatch
  EXPECT_DOUBLE_EQ(replicas.snapshots, 3 * arena);  // two buffers of half of all, on each of two nodes
  EXPECT_EQ(replicas.data, 5 * 2 * (4 * 28 * 28 + 4));
  recipe.parallel.strategy = "sharded_gradients";
  part.share = 0.25;
  EXPECT_NEAR(state_memory(recipe, work, part).moments, arena / 2, arena / 20);
  part.waiting_floats = 1000;
  EXPECT_NEAR(state_memory(recipe, work, part).gradients, arena / 4 + 3000, 1);  // what waits of the others' slices
  recipe.parallel.strategy = "sharded_parameters";
  part.gathered_floats = 1000;
  EXPECT_NEAR(state_memory(recipe, work, part).parameters, arena / 4 + 3000, 1);
  EXPECT_DOUBLE_EQ(state_memory(recipe, work, part).snapshots, 2 * 3 * arena / 4);  // two buffers of what it has
  part.reads = false;                                                               // a stage between others
  EXPECT_EQ(state_memory(recipe, work, part).data, 0);
  recipe.checkpoint.mode = checkpoint::SaveMode::sync;
  EXPECT_EQ(state_memory(recipe, work, part).snapshots, 0);
}

TEST(Memory, NetworksThatRecomputeOrHaveAPartTakeLess) {
  const kernels::Options kernels{.backend = "reference"};
  const auto model =
      model::describe_model({.name = "gpt", .layers = 4, .width = 32, .heads = 2, .context = 32}, {32}, 64);
  const auto whole = model::tensors_of(model);
  const auto wiring = model::wire(model, 1);
  const auto stages = parallel::stages_of(model, 2);
  DryNetworks networks(kernels);
  const double all = networks.bytes(model, wiring, whole, {.samples = 4});
  EXPECT_LT(networks.bytes(model, wiring, whole, {.samples = 4, .recomputes = true}), 0.8 * all);
  double sum = 0;
  for (const auto& stage : stages)
    sum += networks.bytes(model, wiring, model::tensors_of(model, stage), {.samples = 4});
  EXPECT_GT(sum, 0.9 * all);
  EXPECT_LT(sum, 1.5 * all);
}

TEST(Work, FlopsAreThoseOfTheLayers) {
  const auto work = lenet_work();
  const double convolutions = 2.0 * 28 * 28 * 32 * 9 + 2.0 * 14 * 14 * 64 * 9 * 32;
  const double linear = 2.0 * 7 * 7 * 64 * 128 + 2.0 * 128 * 10;
  EXPECT_DOUBLE_EQ(forward_flops(work.model, 3), 3 * (convolutions + linear));
}
}  // namespace
}  // namespace distdl::forecast
