// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include <distdl/base/clock.hpp>
#include <distdl/groups/writing_group.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::groups {
namespace {
using namespace std::chrono_literals;

TEST(WritingGroup, ARankThatDoesNotComeInTimeIsNamed) {
  world::run_threads(3, [](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      auto made = make_writing_group(communicator, 2s);
      auto writer = std::async(std::launch::async, [&, group = std::move(made)]() -> std::string {
        EXPECT_EQ(group->all_gather("x").size(), 3U);
        if (world.rank() == Rank(2)) return std::this_thread::sleep_for(5s), "";
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
      const auto said = writer.get();
      if (world.rank() == Rank(2)) return;
      EXPECT_NE(said.find("checkpoint.timeout_seconds = 2"), std::string::npos) << said;
      EXPECT_NE(said.find("rank 2"), std::string::npos) << said;
    });
  });
}

TEST(WritingGroup, TrainingGoesOnBesideIt) {
  world::run_threads(3, [](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      auto writer = std::async(std::launch::async, [group = make_writing_group(communicator, 20s)] {
        for (int i = 0; i < 20; ++i) {
          const std::string mine = std::to_string(group->rank() * i) + std::string(static_cast<std::size_t>(i), 'x');
          EXPECT_EQ(group->all_gather(mine).at(static_cast<std::size_t>(group->rank())), mine);
        }
      });
      for (int i = 0; i < 100; ++i) {
        std::vector<std::int64_t> ones(1000, 1);
        communicator.all_reduce(std::span(ones)).wait();
        EXPECT_EQ(ones[999], 3);
      }
      writer.get();
    });
  });
}

TEST(WritingGroup, AnotherThreadCancelsItsWaits) {
  world::run_threads(2, [](world::World& world) {
    comm::run_connected(world, {}, [&](comm::Communicator& communicator) {
      const auto group = make_writing_group(communicator, 60s);
      Stopwatch watch;
      if (world.rank() == Rank(0)) {
        auto writer = std::async(std::launch::async, [&] { EXPECT_THROW(group->all_gather("x"), CommError); });
        std::this_thread::sleep_for(100ms);
        group->cancel();
        writer.get();
      }
      EXPECT_LT(watch.seconds(), 30);
      communicator.barrier().wait();
    });
  });
}

}  // namespace
}  // namespace distdl::groups
