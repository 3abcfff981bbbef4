// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/world/rank_names.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::world {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunThreads, GivesEveryoneEverythingInRankOrder) {
  std::atomic<int> ran = 0;
  run_threads(3, [&](World& world) {
    EXPECT_EQ(world.size(), 3);
    const auto all = world.all_gather_strings(std::string(world.rank().value + 1, 'x'), Milliseconds(5000));
    EXPECT_THAT(all, ElementsAre("x", "xx", "xxx"));
    ++ran;
  });
  EXPECT_EQ(ran, 3);
}

TEST(RunThreads, ThrowsTheCauseNotItsConsequences) {
  const auto body = [](World& world) {
    if (world.rank() == Rank(0)) throw CommError("lost rank 2");
    if (world.rank() == Rank(2)) throw ConfigError("the cause");
  };
  EXPECT_THROW(run_threads(3, body), ConfigError);
}

TEST(RunThreads, RankThatEndsBeforeTheMeetingEndsTheOthersWait) {
  const auto body = [](World& world) {
    if (world.rank() == Rank(1)) throw StorageError("the cause");
    world.all_gather_strings("", Milliseconds(60000));
  };
  EXPECT_THROW(run_threads(3, body), StorageError);
}

TEST(RunThreads, NamesARankThatIsLate) {
  const auto body = [](World& world) {
    if (world.rank() == Rank(1)) std::this_thread::sleep_for(Milliseconds(300));
    world.all_gather_strings("", Milliseconds(50));
  };
  try {
    run_threads(2, body);
    FAIL() << "no error";
  } catch (const SchedulerError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 did not arrive at the rendezvous within 50 ms"));
  }
}

TEST(NameRanks, ShortensLongLists) {
  std::vector<Rank> ranks{Rank(3)};
  EXPECT_EQ(name_ranks(ranks), "rank 3");
  ranks.push_back(Rank(5));
  EXPECT_EQ(name_ranks(ranks), "ranks 3 and 5");
  for (int r = 6; r < 30; ++r) ranks.push_back(Rank(r));
  EXPECT_EQ(name_ranks(ranks), "ranks 3, 5, 6, 7, 8, 9, 10, 11 and 18 more");
}

}  // namespace
}  // namespace distdl::world
