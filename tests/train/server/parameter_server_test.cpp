// SPDX-License-Identifier: Apache-2.0
// Servers hold ranges of the parameters, and apply what workers push: synchronously with the bytes of replicas, or each
// gradient at once.

#include <atomic>
#include <cmath>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/checkpoint/orphaned_snapshots.hpp>
#include <distdl/train/server/range_keeper.hpp>

namespace distdl::train {
namespace {
using parallel::Compression;
using parallel::Strategy;
using parallel::server::Mode;
using parallel::server::Placement;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Servers : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 11;  // the last round is shorter
    recipe_.checkpoint.every = 0;
    recipe_.parallel.strategy = Strategy::parameter_server;
    recipe_.parallel.servers.steps = 4;
  }
  std::vector<double> losses(int ranks, const std::string& name) {
    recorder_ = {};
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    std::vector<double> all;
    for (const auto& step : recorder_.steps) all.push_back(*step.loss);
    all.push_back(*recorder_.evaluated.back().loss);
    return all;
  }
  std::vector<double> losses_of_replicas(const std::string& name) {
    recipe_.parallel.strategy = Strategy::replicas;
    auto all = losses(2, name);
    recipe_.parallel.strategy = Strategy::parameter_server;
    return all;
  }
  void set_servers(int servers, Placement placement = Placement::colocated) {
    recipe_.parallel.servers.tasks = servers;
    recipe_.parallel.servers.placement = placement;
  }
  std::int64_t updates_by_staleness() const {
    std::int64_t updates = 0;
    for (const auto& step : recorder_.steps)
      updates = std::accumulate(step.staleness.begin(), step.staleness.end(), updates);
    return updates;
  }
};

TEST_F(Servers, SynchronousBytesAreThoseOfReplicas) {
  const auto whole = losses_of_replicas("replicas");
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int servers = 1; servers <= ranks; ++servers) {
      set_servers(servers);
      const auto name = fmt::format("{}on{}", servers, ranks);
      EXPECT_EQ(losses(ranks, name), whole) << name;
      EXPECT_EQ(digest(name), digest("replicas")) << name;
    }
  set_servers(2, Placement::own);
  EXPECT_EQ(losses(4, "own"), whole);
  EXPECT_EQ(digest("own"), digest("replicas"));
}

/// With dropout, which draws by microbatch, and an average of the parameters.
TEST_F(Servers, SynchronousBytesOfAdamAreThoseOfReplicas) {
  use_text();
  recipe_.train.steps = 6;
  recipe_.optim.name = "adamw";
  recipe_.optim.learning_rate = 1e-2;
  recipe_.optim.ema_decay = 0.9;
  shared_memory_ranks_ = 1;
  losses_of_replicas("replicas");
  for (const int ranks : {2, 3}) EXPECT_EQ(digest_of(ranks, std::to_string(ranks)), digest("replicas")) << ranks;
}

/// LARS adapts to whole tensors, which no two servers share then.
TEST_F(Servers, SynchronousBytesOfLarsAreThoseOfReplicas) {
  recipe_.optim.name = "lars";
  recipe_.optim.learning_rate = 1;
  losses_of_replicas("replicas");
  EXPECT_EQ(digest_of(3, "lars"), digest("replicas"));
}

TEST_F(Servers, ARunMayGoOnWithOtherServersOrAsReplicas) {
  losses_of_replicas("whole");
  EXPECT_EQ(run(1, "cut", 2), Outcome::stopped);
  set_servers(2);
  EXPECT_EQ(run(3, "cut", 2, 2), Outcome::stopped);  // the last rank asks, which has no server
  recipe_.parallel.strategy = Strategy::replicas;
  EXPECT_EQ(run(2, "cut", 1), Outcome::stopped);
  recipe_.parallel.strategy = Strategy::parameter_server;
  set_servers(1, Placement::own);
  EXPECT_EQ(run(4, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest("whole"));
}

TEST_F(Servers, RoundsEndWhereSomethingIsDue) {
  recipe_.checkpoint.every = 3;
  recipe_.checkpoint.mode = checkpoint::SaveMode::sync;
  recipe_.train.evaluate_every_steps = 5;
  recipe_.train.evaluate_every = 0;
  losses(2, "run");
  std::vector<std::int64_t> saved, evaluated, steps;
  for (const auto& event : recorder_.saved) saved.push_back(event.step->value);
  for (const auto& event : recorder_.evaluated) evaluated.push_back(event.step.value);
  for (const auto& event : recorder_.steps) steps.push_back(event.step.value);
  EXPECT_THAT(saved, ElementsAre(3, 6, 9, 11));
  EXPECT_THAT(evaluated, ElementsAre(5, 10, 11));
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

/// Steps may be longer than an epoch: then each would be a round.
TEST_F(Servers, AnEpochWithNothingToEvaluateEndsNoRound) {
  recipe_.data.holdout = 0;
  recipe_.parallel.servers.steps = 100;
  EXPECT_EQ(run(2, "run"), Outcome::finished);
  std::vector<std::int64_t> ends;
  for (const auto& event : recorder_.steps)
    if (!event.is_followed) ends.push_back(event.step.value);
  EXPECT_THAT(ends, ElementsAre(11));
}

/// In one round of all steps, without checkpoints.
class LostServers : public Servers {
 protected:
  void SetUp() override {
    Servers::SetUp();
    recipe_.train.evaluate_every = 0;  // but at the end
    losses_of_replicas("whole");
    recipe_.parallel.servers.steps = 100;
    recipe_.parallel.servers.partners = true;
    aborts_ = true;
  }
  void TearDown() override {
    forget_memory("lost");
    Servers::TearDown();
  }
  /// The newest step of which anything is kept.
  Step newest_kept(const std::string& name) const {
    Step newest(0);
    for (const auto& one : checkpoint::orphaned_snapshots(folder_ / name)) newest = std::max(newest, one.label.step);
    return newest;
  }
  /// Ends a rank within the round, as soon as anybody has kept that step; the others compute nothing more. Returns the
  /// newest step that was kept.
  Step lose(int ranks, int lost, Step step) {
    recorder_ = {};
    std::atomic<bool> is_lost = false;
    at_look_ = [&, lost, step](int rank) {
      if (newest_kept("lost") < step) return;
      if (rank == lost) {
        is_lost = true;
        throw std::runtime_error("a crash");
      }
      // Where gradients are applied at once, it is kept when the round is over: others must leave it.
      if (recipe_.parallel.servers.mode != Mode::synchronous) return;
      for (const Stopwatch watch; !is_lost && watch.seconds() < paced(10);) std::this_thread::yield();
    };
    EXPECT_THROW(run(ranks, "lost"), std::runtime_error);
    at_look_ = nullptr;
    const Step newest = newest_kept("lost");
    EXPECT_GE(newest, step);
    forget_memory_of("lost", lost);
    return newest;
  }
  /// All holders have the step before the newest one that any has.
  void expect_to_go_on_after(Step newest, int ranks) {
    EXPECT_TRUE(recorder_.steps.empty()) << "it was lost within a round";
    recorder_ = {};
    EXPECT_EQ(digest_of(ranks, "lost"), digest("whole"));
    ASSERT_TRUE(recorder_.started.at(0).resumed_from);
    EXPECT_GE(*recorder_.started[0].resumed_from, Step(newest.value - 1)) << "at most the step under way is repeated";
    EXPECT_THAT(recorder_.started[0].resumed_source, HasSubstr("what servers and their partners kept"));
    EXPECT_TRUE(buffers_of("lost").empty());
  }
};

TEST(RangeKeeper, HasTheNewestTwoVersionsOfEachRange) {
  const auto run = fmt::format("keeper{}", ::getpid());
  const auto steps = [&] {
    std::multiset<std::int64_t> found;
    for (const auto& name : checkpoint::buffers_of(run)) {
      const auto memory = checkpoint::SnapshotMemory::peek(name);
      found.insert(checkpoint::open_snapshot(memory.bytes()).label.step.value);
    }
    return found;
  };
  RangeKeeper keeper(run, {}, 5, 1);
  for (const int range : {0, 1})
    for (const int step : {7, 8, 9}) keeper.keep(range, 2, Step(step), {}, {});
  EXPECT_THAT(steps(), ElementsAre(8, 8, 9, 9));
  keeper.remove();
  EXPECT_TRUE(steps().empty());
}

TEST_F(LostServers, CostTheStepUnderWayAtMost) {
  for (const int lost : {0, 2}) {
    SCOPED_TRACE(lost);
    expect_to_go_on_after(lose(3, lost, Step(6)), 2);
    std::filesystem::remove_all(folder_ / "lost");
  }
}

/// The second loss comes where the first start's memory is still there.
TEST_F(LostServers, CostTheSameOneAfterTheOther) {
  EXPECT_GE(lose(4, 2, Step(3)), Step(3));
  expect_to_go_on_after(lose(3, 1, Step(7)), 2);
}

TEST_F(LostServers, OfWhichOneIsThePartnerOfTheOtherCostMore) {
  const Step newest = lose(3, 1, Step(4));
  forget_memory_of("lost", 2);
  EXPECT_GE(newest, Step(4));
  recorder_ = {};
  EXPECT_EQ(digest_of(2, "lost"), digest("whole"));
  EXPECT_FALSE(recorder_.started.at(0).resumed_from) << "there is no checkpoint";
}

TEST_F(LostServers, MayBeFewOrOnRanksOfTheirOwn) {
  set_servers(2, Placement::own);
  expect_to_go_on_after(lose(4, 3, Step(5)), 3);
  std::filesystem::remove_all(folder_ / "lost");
  set_servers(2);
  expect_to_go_on_after(lose(3, 0, Step(5)), 3);
}

TEST_F(LostServers, OfATextModelWithAdam) {
  std::filesystem::remove_all(folder_ / "whole");
  use_text();
  recipe_.train.steps = 6;
  recipe_.optim.name = "adamw";
  recipe_.optim.learning_rate = 1e-2;
  recipe_.optim.ema_decay = 0.9;
  shared_memory_ranks_ = 1;
  losses_of_replicas("whole");
  expect_to_go_on_after(lose(3, 1, Step(3)), 2);
}

/// Ranges have no step in common within a round: the steps since its beginning are repeated, each microbatch once.
TEST_F(LostServers, CostTheRoundWhereGradientsAreAppliedAtOnce) {
  recipe_.parallel.servers.mode = Mode::bounded;
  recipe_.parallel.servers.staleness = 1;
  recipe_.parallel.servers.steps = 4;
  lose(3, 1, Step(8));  // then the partners' copies of step 8 may not be there, but all of step 4 are
  const std::int64_t told = recorder_.steps.empty() ? 0 : recorder_.steps.back().step.value;
  recorder_ = {};
  EXPECT_EQ(run(2, "lost"), Outcome::finished);
  ASSERT_TRUE(recorder_.started.at(0).resumed_from);
  const std::int64_t from = recorder_.started[0].resumed_from->value;
  EXPECT_GE(from, told);
  EXPECT_EQ(from % 4, 0);
  EXPECT_EQ(updates_by_staleness(), 2 * (11 - from) * 12) << "each microbatch once in each of two ranges";
}

/// The others do the steps that have begun, and the next start goes on from there. The whole run is one round.
TEST_F(LostServers, AWorkerCostsItsMicrobatchWhereGradientsAreAppliedAtOnce) {
  constexpr std::int64_t kSteps = 150;
  recipe_.train.steps = kSteps;
  recipe_.parallel.servers.mode = Mode::asynchronous;
  recipe_.parallel.servers.steps = kSteps;
  set_servers(2, Placement::own);
  recorder_ = {};
  at_look_ = [looks = 0](int rank) mutable {
    if (rank == 1 && ++looks == 50) throw CommError("as if it were killed");
  };
  EXPECT_THROW(run(4, "lost"), CommError);
  at_look_ = nullptr;
  EXPECT_TRUE(recorder_.steps.empty()) << "it was lost within the round";
  const Step newest = newest_kept("lost");
  EXPECT_GT(newest, Step(0));
  EXPECT_LT(newest, Step(kSteps));
  recorder_ = {};
  EXPECT_EQ(run(3, "lost"), Outcome::finished);
  EXPECT_EQ(recorder_.started.at(0).resumed_from, newest);
  EXPECT_THAT(recorder_.started[0].resumed_source, HasSubstr("what servers and their partners kept"));
  EXPECT_EQ(updates_by_staleness(), (kSteps - newest.value) * 12 * 2) << "each microbatch once in each of two ranges";
}

/// The first rank ends between two rounds; the others hear of it, and the next start has the snapshots.
TEST_F(Servers, ALostRankWithoutPartnersCostsTheStepsSinceTheLastSnapshot) {
  losses_of_replicas("whole");
  recipe_.checkpoint.memory_every = 2;
  aborts_ = true;
  recorder_ = {};
  recorder_.after_step = [](Step step) {
    if (step == Step(6)) throw std::runtime_error("a crash");
  };
  EXPECT_THROW(run(3, "lost"), std::runtime_error);
  recorder_ = {};
  EXPECT_EQ(digest_of(2, "lost"), digest("whole"));
}

TEST_F(Servers, GradientsThatAreAppliedAtOnceTrain) {
  recipe_.train.steps = 40;
  recipe_.parallel.servers.steps = 16;
  recipe_.optim.learning_rate = 0.1;
  const auto mean = [](const auto first, const auto last) {
    return std::accumulate(first, last, 0.0) / (last - first);
  };
  for (const auto mode : {Mode::bounded, Mode::asynchronous})
    for (const double compensation : {0.0, 0.5}) {
      recipe_.parallel.servers.mode = mode;
      recipe_.parallel.servers.staleness = 1;
      recipe_.parallel.servers.delay_compensation = compensation;
      const auto name = fmt::format("{}{}", recipe_.parallel.servers.mode, compensation);
      const auto all = losses(3, name);
      EXPECT_EQ(all.size(), 41u) << name;
      EXPECT_LT(mean(all.end() - 9, all.end() - 1), 0.9 * mean(all.begin(), all.begin() + 4)) << name;
      EXPECT_EQ(updates_by_staleness(), 3 * 40 * 12) << "each microbatch once in each of three ranges, " << name;
      if (mode == Mode::asynchronous) continue;
      for (const auto& step : recorder_.steps) EXPECT_LE(step.staleness.size(), 3u * 12) << name;
    }
}

/// The mean loss of the last steps falls, whatever workers push and pull.
TEST_F(Servers, LearnWithEachCompression) {
  recipe_.model.hidden = {24};
  recipe_.train.steps = 30;
  recipe_.optim.learning_rate = 0.1;
  recipe_.parallel.compression.fraction = 0.1;
  recipe_.parallel.compression.warmup_steps = 6;
  for (const auto& [mode, compression] : {std::pair(Mode::synchronous, Compression::int8),
                                          {Mode::synchronous, Compression::fp16},
                                          {Mode::asynchronous, Compression::bf16},
                                          {Mode::bounded, Compression::topk},
                                          {Mode::asynchronous, Compression::onebit},
                                          {Mode::synchronous, Compression::automatic}}) {
    recipe_.parallel.servers.mode = mode;
    recipe_.parallel.compression.encoding = compression;
    recipe_.parallel.servers.partners = mode == Mode::synchronous;
    const auto name = fmt::format("{}-{}", recipe_.parallel.servers.mode, recipe_.parallel.compression.encoding);
    const auto all = losses(3, name);
    EXPECT_LT(std::accumulate(all.end() - 9, all.end() - 1, 0.0) / 8, 0.9 * all.front()) << name;
    if (parallel::encoding_of(compression).warms_up) {
      EXPECT_EQ(recorder_.steps.front().compression, "int8") << name;
    }
    EXPECT_EQ(recorder_.steps.back().compression,
              compression == Compression::automatic ? "none" : recipe_.parallel.compression.encoding.name());
  }
}

TEST_F(Servers, ResidualsGoToTheWorkersOfOtherRanks) {
  recipe_.model.hidden = {24};
  recipe_.parallel.compression.encoding = Compression::onebit;
  EXPECT_EQ(run(3, "cut", 2), Outcome::stopped);
  EXPECT_EQ(ranks_of_residuals("cut"), 3);
  set_servers(2, Placement::own);
  EXPECT_EQ(run(4, "cut", 1), Outcome::stopped);
  EXPECT_EQ(ranks_of_residuals("cut"), 4) << "of which two have no worker";
  recipe_.parallel.compression.encoding = Compression::automatic;  // none, with what is left of earlier steps
  set_servers(0);
  EXPECT_EQ(run(2, "cut", 1), Outcome::stopped);
  recipe_.parallel.strategy = Strategy::replicas;
  recipe_.parallel.compression.encoding = Compression::int8;
  EXPECT_EQ(run(2, "cut"), Outcome::finished);
  EXPECT_EQ(ranks_of_residuals("cut"), 2);
}

TEST_F(Servers, AtOnceOnOneRankIsARunThatCanBeStopped) {
  recipe_.parallel.servers.mode = Mode::asynchronous;
  EXPECT_EQ(run(2, "cut", 2), Outcome::stopped);
  EXPECT_LT(recorder_.steps.back().step, Step(11));
  recorded_loss_ = [](Step) { return std::optional(1.5); };  // which does not repeat, and is not compared
  EXPECT_EQ(run(1, "cut"), Outcome::finished);
  recipe_.parallel.servers.mode = Mode::synchronous;
  recipe_.train.steps = 13;
  recorded_loss_ = nullptr;
  EXPECT_EQ(run(2, "cut"), Outcome::finished) << "a run may change its mode";
}

TEST_F(Servers, HaveConnectionsOfTheirOwn) {
  recipe_.parallel.servers.interface = "none0";
  try {
    run(2, "own");
    FAIL() << "there is no such network";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("cluster.interface: this host has no network interface \"none0\""));
  }
}

TEST_F(Servers, RefusesWhatIsNotBuilt) {
  const Recipe good = recipe_;
  const auto error = [&](const std::function<void(Recipe&)>& change) {
    Recipe recipe = good;
    change(recipe);
    try {
      check(recipe);
    } catch (const ConfigError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(error([](Recipe&) {}), "");
  EXPECT_EQ(error([](Recipe& r) { r.optim.ema_decay = 0.9; }), "");
  EXPECT_THAT(error([](Recipe& r) { r.parallel.pipeline_ranks = 2; }), HasSubstr("use parallel.pipeline_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.tensor_ranks = 2; }), HasSubstr("use parallel.tensor_ranks = 1"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.context_ranks = 2; }), HasSubstr("use parallel.context_ranks = 1"));
  EXPECT_EQ(error([](Recipe& r) { r.parallel.compression.encoding = "int8"; }), "");
  EXPECT_THAT(error([](Recipe& r) { r.parallel.compression.encoding = "powersgd"; }), HasSubstr("workers push apart"));
  EXPECT_THAT(error([](Recipe& r) { r.optim.clip_norm = 1; }), HasSubstr("use optim.clip_norm = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.train.audit_every = 5; }), HasSubstr("use train.audit_every = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.kernels.precision = "fp16"; }), HasSubstr("use kernels.precision = \"bf16\""));
  EXPECT_THAT(error([](Recipe& r) {
                r.parallel.servers.mode = Mode::bounded;
                r.optim.ema_decay = 0.9;
              }),
              HasSubstr("use optim.ema_decay = 0"));
  EXPECT_THAT(error([](Recipe& r) { r.parallel.servers.tasks = -1; }), HasSubstr("cluster.ps.tasks is -1"));
}
}  // namespace
}  // namespace distdl::train
