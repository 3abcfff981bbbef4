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
}  // namespace
}  // namespace distdl::parallel
