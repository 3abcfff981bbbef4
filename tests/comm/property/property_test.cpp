// SPDX-License-Identifier: Apache-2.0
// Random operations, several under way at a time, against an oracle. A failure tells how to repeat it:
//   DISTDL_PROPERTY_SEED=<seed> DISTDL_PROPERTY_ROUNDS=1 comm_property_test --gtest_filter=<test>
// More rounds, or another seed, search further. DISTDL_PROPERTY_TRACE=1 tells what begins, where nothing else can.
#include <algorithm>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/comm/property/property_operation.hpp"
#include <distdl/base/env.hpp>

namespace distdl::comm::property {
namespace {

#ifdef DISTDL_SANITIZED
constexpr int kRounds = 4;
constexpr std::size_t kMostBytes = 1 << 20;
#else
constexpr int kRounds = 15;
constexpr std::size_t kMostBytes = 3 << 20;
#endif
constexpr int kMostAtOnce = 6;

/// A round: one operation of any size, or several that are smaller.
std::vector<Case> draw_round(std::uint64_t seed, const Shape& shape) {
  std::mt19937_64 random(seed);
  const int count = random() % 2 ? 1 : 1 + static_cast<int>(random() % kMostAtOnce);
  std::vector<Case> round;
  for (int i = 0; i < count; ++i) round.push_back(draw(random(), shape, kMostBytes / static_cast<std::size_t>(count)));
  return round;
}

/// Waits in the rank's own order, or asks until it is done.
void finish(Request& request, std::mt19937_64& random) {
  switch (random() % 3) {
    case 0:
      request.wait();
      return;
    case 1:
      while (!request.test()) std::this_thread::yield();
      return;
    default:
      for (int i = 0; i < 5; ++i)
        if (request.test()) return;
      request.wait();
  }
}

class Player {
 public:
  Player(Communicator& comm, const Shape& shape, Truths& truths)
      : comm_(comm), shape_(shape), truths_(truths), memory_(comm, 4 * kMostBytes) {}

  void play(std::uint64_t seed) { play(seed, draw_round(seed, shape_)); }

  void play(std::uint64_t seed, const std::vector<Case>& round) {
    std::vector<RankOperation> operations;
    std::size_t now = 0;
    try {
      for (const Case& one : round) operations.emplace_back(comm_, memory_, one, shape_, truths_.of(one, shape_));
      std::vector<Request> requests;
      for (; now < round.size(); ++now) {
        if (trace_) std::cerr << fmt::format("{}: rank {} begins {}\n", seed, comm_.rank(), describe(round[now]));
        requests.push_back(operations[now].begin());
      }
      std::mt19937_64 own(seed + static_cast<std::uint64_t>(comm_.rank().value));
      std::vector<std::size_t> order(round.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), own);
      for (std::size_t i : order) finish(requests[now = i], own);
      for (now = 0; now < round.size(); ++now) demand(operations[now].judge());
      demand(memory_.judge_guards());
    } catch (const CommError& error) {  // may be the consequence of another rank's failure
      throw CommError(story(seed, round, now, error.what()));
    } catch (const std::exception& error) {
      throw Error(ExitCode::internal, story(seed, round, now, error.what()));
    }
    memory_.reset();
  }

 private:
  std::string story(std::uint64_t seed, const std::vector<Case>& round, std::size_t now, const char* what) const {
    return fmt::format("DISTDL_PROPERTY_SEED={}, rank {}, operation {} of {}: {}\n  {}", seed, comm_.rank(), now + 1,
                       round.size(), what, describe(round[std::min(now, round.size() - 1)]));
  }
  static void demand(const std::string& verdict) {
    if (!verdict.empty()) throw Error(ExitCode::internal, verdict);
  }

  Communicator& comm_;
  const Shape shape_;
  Truths& truths_;
  Memory memory_;
  const bool trace_ = env("DISTDL_PROPERTY_TRACE").has_value();
};

class Property : public ::testing::TestWithParam<Shape> {};

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int nodes = 1; nodes <= std::min(ranks, 4); ++nodes) {
      const int per_node = (ranks + nodes - 1) / nodes;
      if ((ranks + per_node - 1) / per_node == nodes) all.push_back({ranks, per_node});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Worlds, Property, ::testing::ValuesIn(shapes()), [](const auto& test) {
  return fmt::format("{}ranks{}PerNode", test.param.ranks, test.param.per_node);
});

TEST_P(Property, EveryOperationGivesWhatTheOracleGives) {
  const Shape shape = GetParam();
  const auto first = static_cast<std::uint64_t>(env_integer("DISTDL_PROPERTY_SEED").value_or(1));
  const auto rounds = static_cast<std::uint64_t>(env_integer("DISTDL_PROPERTY_ROUNDS").value_or(kRounds));
  Options options = test_options();
  options.shared_memory_ranks = shape.per_node;
  Truths truths;
  const auto body = [&](Communicator& comm) {
    Player player(comm, shape, truths);
    for (std::uint64_t seed = first; seed < first + rounds; ++seed) player.play(seed);
  };
  EXPECT_NO_THROW(on_threads(shape.ranks, body, options));
}

/// A short operation of a collective, done in every possible way.
std::vector<Case> every_way(Collective collective, const Shape& shape) {
  std::vector<Case> all;
  if (collective == Collective::barrier) return all;  // see collectives_test.cpp
  for (std::uint64_t seed = 1; all.empty(); ++seed) {
    Case one = draw(seed, shape, 40'000);
    if (one.collective != collective || one.counts.size() + one.count + one.matrix.size() == 0) continue;
    for (const Choice& choice : choices(one, shape)) {
      one.seed = seed * 100'000 + all.size();
      one.choice = choice;
      all.push_back(one);
    }
  }
  return all;
}

TEST_P(Property, EveryAlgorithmGivesWhatTheOracleGives) {
  const Shape shape = GetParam();
  Options options = test_options();
  options.shared_memory_ranks = shape.per_node;
  Truths truths;
  const auto body = [&](Communicator& comm) {
    Player player(comm, shape, truths);
    for (int collective = 0; collective <= static_cast<int>(Collective::scatter); ++collective)
      for (const Case& one : every_way(static_cast<Collective>(collective), shape)) player.play(one.seed, {one});
  };
  EXPECT_NO_THROW(on_threads(shape.ranks, body, options));
}

}  // namespace
}  // namespace distdl::comm::property
