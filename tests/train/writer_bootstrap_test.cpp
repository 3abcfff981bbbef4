// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/train/writer_bootstrap.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::train {
namespace {

TEST(WriterBootstrap, DoesNotWaitForEverForAThreadThatDoesNotCome) {
  world::run_threads(2, [](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    WriterBootstrap bootstrap(world.rank(), 2, {}, std::chrono::seconds(4));
    try {
      bootstrap.exchange_addresses(*communicator);  // and nobody calls connect()
      ADD_FAILURE() << "they met";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the thread that writes checkpoints"), std::string::npos)
          << error.what();
    }
    communicator->close();
  });
}

TEST(WriterBootstrap, ARankThatDoesNotComeInTimeIsNamed) {
  world::run_threads(3, [](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      WriterBootstrap bootstrap(world.rank(), 3, {}, std::chrono::seconds(2));
      auto writer = std::async(std::launch::async, [&]() -> std::string {
        const auto group = bootstrap.connect();
        EXPECT_EQ(group->all_gather("x").size(), 3U);
        if (world.rank() == Rank(2)) return std::this_thread::sleep_for(std::chrono::seconds(5)), "";
        Stopwatch watch;
        try {
          group->all_gather("x");
          return "it came";
        } catch (const comm::PeerLost& lost) {
          EXPECT_EQ(lost.rank(), Rank(2));
          EXPECT_GE(watch.seconds(), 2);
          return lost.what();
        }
      });
      bootstrap.exchange_addresses(communicator);
      const auto said = writer.get();
      if (world.rank() == Rank(2)) return;
      EXPECT_NE(said.find("checkpoint.timeout_seconds = 2"), std::string::npos) << said;
      EXPECT_NE(said.find("rank 2"), std::string::npos) << said;
    });
  });
}

}  // namespace
}  // namespace distdl::train
