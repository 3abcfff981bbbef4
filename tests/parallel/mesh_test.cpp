// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/parallel/mesh.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
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
    });
  });
}

TEST(Mesh, HasAsManyTensorRanksAsDivideTheRanks) {
  const Options options{.tensor_shards = 4, .tensor_ranks = 4};
  EXPECT_EQ(degrees_of({}, 6), (Degrees{.data = 6}));
  EXPECT_EQ(degrees_of(options, 8), (Degrees{.data = 2, .tensor = 4}));
  EXPECT_EQ(degrees_of(options, 6), (Degrees{.data = 2, .tensor = 3}));
  EXPECT_EQ(degrees_of(options, 7), (Degrees{.data = 7}));
  EXPECT_EQ(degrees_of(options, 2), (Degrees{.tensor = 2}));
}
}  // namespace
}  // namespace distdl::parallel
