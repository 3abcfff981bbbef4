// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/forecast/memory.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/network.hpp>
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
  const auto small = make_dry_network(kernels, work, 1);
  EXPECT_GT(small.bytes, 2.0 * 28 * 28 * 32 * 4);  // the first convolution's output and gradient
  EXPECT_NEAR(make_dry_network(kernels, work, 1 << 20).bytes / small.bytes / (1 << 20), 1, 0.2);
  EXPECT_EQ(small.places.front(), work.tensors.layout.size());
  EXPECT_EQ(small.places.back(), 0);
}

TEST(Memory, ShardsKeepTheirPartOfTheMoments) {
  train::Recipe recipe;
  recipe.optim.name = "adamw";
  recipe.parallel = {.microbatches = 4, .microbatch_size = 2};
  const auto work = lenet_work();
  const double arena = static_cast<double>(work.tensors.layout.size()) * 4;
  const auto plan = parallel::make_plan(recipe.parallel, 4);
  const auto replicas = state_memory(recipe, work, plan, 2, Rank(0), true);
  EXPECT_DOUBLE_EQ(replicas.parameters, arena);
  EXPECT_DOUBLE_EQ(replicas.moments, 2 * arena);
  EXPECT_NEAR(replicas.gradients, arena, 100);      // one microbatch
  EXPECT_DOUBLE_EQ(replicas.snapshots, 3 * arena);  // two buffers of half of all, on each of two nodes
  EXPECT_EQ(replicas.data, 5 * 2 * (4 * 28 * 28 + 4));
  recipe.parallel.strategy = parallel::Strategy::sharded;
  EXPECT_NEAR(state_memory(recipe, work, plan, 2, Rank(0), true).moments, arena / 2, arena / 20);
  recipe.checkpoint.mode = checkpoint::SaveMode::sync;
  EXPECT_EQ(state_memory(recipe, work, plan, 2, Rank(0), true).snapshots, 0);
}

TEST(Work, FlopsAreThoseOfTheLayers) {
  const auto work = lenet_work();
  const double convolutions = 2.0 * 28 * 28 * 32 * 9 + 2.0 * 14 * 14 * 64 * 9 * 32;
  const double linear = 2.0 * 7 * 7 * 64 * 128 + 2.0 * 128 * 10;
  EXPECT_DOUBLE_EQ(forward_flops(work.model, 3), 3 * (convolutions + linear));
}
}  // namespace
}  // namespace distdl::forecast
