// SPDX-License-Identifier: Apache-2.0
// Parameters move away from slow servers, and the bytes of synchronous runs stay the same.
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/parallel/server/runtime.hpp>
#include <distdl/train/server/range_rule.hpp>

namespace distdl::train {
namespace {
using parallel::Strategy;
using parallel::server::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What a rank sees where elements cost so much at each server.
AnswerSeconds answers(const std::vector<optim::Elements>& ranges, const std::vector<double>& costs, double other) {
  AnswerSeconds seen{0, {}};
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    seen.ranges.push_back(static_cast<double>(ranges[i].count()) * costs[i]);
    seen.step = std::max(seen.step, seen.ranges.back());
  }
  seen.step += other;
  return seen;
}

tensor::ArenaLayout some_layout() {
  tensor::ArenaLayout layout;
  layout.add("weight", {300, 16});
  return layout;
}

class RangesOf : public ::testing::Test {
 protected:
  int look(int exchanges) {
    int moves = 0;
    for (int i = 0; i < exchanges; ++i)
      moves += rule_.take(std::vector(2, answers(rule_.ranges(), costs_(rule_.ranges()), other_)));
    return moves;
  }
  std::vector<std::size_t> counts() const {
    std::vector<std::size_t> all;
    for (const auto& range : rule_.ranges()) all.push_back(range.count());
    return all;
  }
  tensor::ArenaLayout layout_ = some_layout();
  RangeBalance rule_{{.name = "sgd"}, layout_, 3};
  std::function<std::vector<double>(const std::vector<optim::Elements>&)> costs_ = [](const auto&) {
    return std::vector<double>{1e-3, 3e-3, 1e-3};
  };
  double other_ = 1;
};

TEST_F(RangesOf, SlowServersBecomeSmallerOnceAndStayThen) {
  EXPECT_THAT(counts(), ElementsAre(1600, 1600, 1600));
  EXPECT_EQ(look(3), 0) << "one exchange may be wrong";
  EXPECT_EQ(look(1), 1);
  EXPECT_NEAR(static_cast<double>(counts()[1]), 4800.0 / 7, 32);
  EXPECT_EQ(look(50), 0);
  costs_ = [](const auto&) { return std::vector<double>(3, 1e-3); };
  EXPECT_EQ(look(10), 1) << "it is as fast as the others again";
  EXPECT_THAT(counts(), ElementsAre(1600, 1600, 1600));
}

TEST_F(RangesOf, ServersThatMatterLittleStay) {
  other_ = 100;  // of 105 s
  EXPECT_EQ(look(20), 0);
}

/// As where a worker's own link is slow, and answers come one after the other.
TEST_F(RangesOf, ServersGoBackWhereAMoveDoesNotHelp) {
  costs_ = [](const auto& ranges) {
    std::vector<double> all;
    for (const auto& range : ranges) all.push_back(static_cast<double>(range.end) / static_cast<double>(range.count()));
    return all;
  };
  EXPECT_EQ(look(4), 1);
  EXPECT_EQ(look(2), 1);
  EXPECT_THAT(counts(), ElementsAre(1600, 1600, 1600));
  EXPECT_THAT(rule_.went_back(), HasSubstr("s after the move"));
  EXPECT_LE(look(200), 16) << "less and less often";
}

TEST_F(RangesOf, ServersWithoutATimeStay) {
  for (const double unknown :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    auto seen = answers(rule_.ranges(), {1e-3, 3e-3, 1e-3}, 1);
    seen.ranges[2] = unknown;
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(rule_.take(std::vector{seen}));
    auto step = answers(rule_.ranges(), {1e-3, 3e-3, 1e-3}, 1);
    step.step = unknown;
    for (int i = 0; i < 10; ++i) EXPECT_FALSE(rule_.take(std::vector{step}));
  }
  EXPECT_TRUE(rule_.seconds().empty());
  EXPECT_FALSE(rule_.take({})) << "without ranks";
}

TEST(ElementSeconds, AreThoseOfMostWorkers) {
  const std::vector<optim::Elements> ranges{{0, 10}, {10, 30}, {30, 30}};
  const std::vector<AnswerSeconds> seen{{1, {1, 2, 0}}, {1, {9, 18, 0}}, {1, {1.5, 2, 0}}, {1, {0, 0, 0}}, {1, {}}};
  EXPECT_THAT(element_seconds(ranges, seen), ElementsAre(0.15, 0.1, 0)) << "the second one finds all slow";
}

class BalancedServers : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 60;
    recipe_.train.evaluate_every = 0;
    recipe_.checkpoint.every = 0;
    recipe_.parallel.strategy = Strategy::replicas;
    recipe_.optim.name = "adamw";
    recipe_.optim.learning_rate = 1e-2;
    EXPECT_EQ(run(2, "replicas"), Outcome::finished);
    recipe_.parallel.strategy = Strategy::parameter_server;
    recipe_.parallel.servers.steps = 4;
  }
  /// Until step `end`.
  void be_slow(int slow, int end) {
    answer_seconds_ = [=](Rank, Step step, const auto& ranges) {
      std::vector<double> costs(ranges.size(), 1e-3);
      if (step < Step(end)) costs[static_cast<std::size_t>(slow)] = 4e-3;
      return answers(ranges, costs, 0.1);
    };
  }
  int moves() const {
    return static_cast<int>(std::ranges::count_if(recorder_.ranges, [](const auto& each) { return each.moved; }));
  }
};

TEST_F(BalancedServers, GiveTheBytesOfReplicasWhereverParametersMove) {
  for (int slow = 0; slow < 3; ++slow) {
    const auto name = fmt::format("slow{}", slow);
    recorder_ = {};
    be_slow(slow, 35);
    EXPECT_EQ(digest_of(3, name), digest("replicas")) << name;
    ASSERT_GE(moves(), 2) << name;
    ASSERT_FALSE(recorder_.ranges.front().moved) << "what servers cost is told first";
    const auto& elements = recorder_.ranges[1].elements;
    EXPECT_EQ(std::ranges::min_element(elements) - elements.begin(), slow);
    EXPECT_EQ(recorder_.ranges.back().elements, recorder_.ranges.front().elements) << "when it is fast again";
    EXPECT_EQ(recorder_.ranges.back().hosts.size(), 3u);
  }
  recorder_ = {};
  recipe_.train.balance = false;
  EXPECT_EQ(digest_of(3, "off"), digest("replicas"));
  EXPECT_TRUE(recorder_.ranges.empty());
}

TEST_F(BalancedServers, MayEndAndGoOnAsOthers) {
  be_slow(1, 1000);
  recipe_.checkpoint.every = 9;
  recipe_.parallel.servers.placement = parallel::server::Placement::own;
  recipe_.parallel.servers.tasks = 2;
  recipe_.train.end_at_step = 25;
  EXPECT_EQ(run(3, "cut"), Outcome::finished);
  EXPECT_EQ(moves(), 1);
  recipe_.train.end_at_step = 50;
  recipe_.parallel.servers.placement = parallel::server::Placement::colocated;
  EXPECT_EQ(run(3, "cut"), Outcome::finished);
  EXPECT_EQ(moves(), 2) << "a new start begins with equal ranges and finds out again";
  recipe_.train.end_at_step = 0;
  recipe_.parallel.strategy = Strategy::replicas;
  EXPECT_EQ(digest_of(2, "cut"), digest("replicas"));
}

/// What is kept after a move belongs to the new ranges.
TEST_F(BalancedServers, MayBeLost) {
  be_slow(1, 1000);
  recipe_.parallel.servers.partners = true;
  shared_memory_ranks_ = 1;
  aborts_ = true;
  for (const Mode mode : {Mode::synchronous, Mode::bounded}) {
    recipe_.parallel.servers.mode = mode;
    recorder_ = {};
    recorder_.after_step = [](Step step) {
      if (step == Step(40)) throw std::runtime_error("a crash");
    };
    EXPECT_THROW(run(3, "lost"), std::runtime_error);
    EXPECT_GE(moves(), 1);
    forget_memory_of("lost", 0);
    recorder_ = {};
    EXPECT_EQ(run(2, "lost"), Outcome::finished);
    ASSERT_TRUE(recorder_.started.at(0).resumed_from);
    EXPECT_GE(*recorder_.started[0].resumed_from, Step(36));
    if (mode == Mode::synchronous) {
      EXPECT_EQ(digest("lost"), digest("replicas"));
    }
    forget_memory("lost");
    std::filesystem::remove_all(folder_ / "lost");
  }
}

/// Two servers on ranks that are threads, of which one takes some time for each element.
TEST(SlowServers, GetSmallerRanges) {
  constexpr std::size_t kParameters = 4800;
  constexpr std::int64_t kSteps = 4;
  constexpr int kMostRounds = 40;
  const auto layout = some_layout();
  std::vector<std::size_t> elements;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    parallel::Options options;
    options.microbatches = 4;
    options.servers.tasks = 2;
    const auto cluster = parallel::cluster_of(options, 2);
    RangeBalance balance({.name = "sgd"}, layout, 2);
    std::vector<float> arena(kParameters);
    const auto own = [&] { return balance.ranges()[static_cast<std::size_t>(world.rank().value)]; };
    parallel::server::Runtime runtime(
        *communicator, {cluster, balance.ranges(), kParameters},
        [&](const parallel::server::Apply&, const parallel::server::RangeGradient& gradient) {
          const auto range = own();
          if (world.rank() == Rank(1)) std::this_thread::sleep_for(range.count() * std::chrono::microseconds(8));
          for (std::size_t i = 0; i < range.count(); ++i) arena[range.first + i] += gradient.values[i];
        });
    const auto parts = parallel::server::parts_of(options, 2);
    const auto is_small = [&] { return 2 * balance.ranges()[1].count() < balance.ranges()[0].count(); };
    for (int round = 0; round < kMostRounds && !is_small(); ++round) {
      const Stopwatch watch;
      runtime.begin({.mode = Mode::synchronous,
                     .microbatches = std::ssize(parts.nodes),
                     .steps = kSteps,
                     .ranges = 2,
                     .has_partners = false},
                    parts, arena.data());
      while (const auto work = runtime.next([] {})) {
        std::fill_n(work->gradients, kParameters, 1.0F);
        runtime.computed();
      }
      runtime.end();
      const auto range = own();
      for (std::size_t i = range.first; i < range.end; ++i)
        ASSERT_EQ(arena[i], static_cast<float>((round + 1) * kSteps * std::ssize(parts.nodes)));
      auto mine = runtime.answer_seconds();
      mine.push_back(watch.seconds() / kSteps);
      std::vector<double> all(6);
      communicator
          ->all_gather(comm::ConstVector(mine.data(), 3, comm::DataType::float64),
                       comm::Vector(all.data(), 6, comm::DataType::float64))
          .wait();
      std::vector<AnswerSeconds> seen;
      for (const std::size_t i : {0U, 3U}) seen.push_back({all[i + 2], {all[i] / kSteps, all[i + 1] / kSteps}});
      if (!balance.take(seen)) continue;
      for (auto& each : arena) each = static_cast<float>((round + 1) * kSteps * std::ssize(parts.nodes));
      runtime.set_ranges(balance.ranges());
    }
    communicator->barrier().wait();
    if (world.rank() == Rank(0))
      for (const auto& range : balance.ranges()) elements.push_back(range.count());
  });
  ASSERT_EQ(elements.size(), 2u);
  EXPECT_LT(elements[1], elements[0] / 2) << "of " << kParameters;
}
}  // namespace
}  // namespace distdl::train
