// SPDX-License-Identifier: Apache-2.0
// Runs in random order. DISTDL_INTERLEAVINGS=100000 tries more; DISTDL_INTERLEAVING=<seed> repeats one and prints what
// happens.
#include <algorithm>
#include <array>
#include <cstdio>

#include <gtest/gtest.h>

#include "tests/parallel/server/interleaving.hpp"
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::parallel::server::simulation {
namespace {

#ifdef DISTDL_SANITIZED
constexpr long long kInterleavings = 300;
#else
constexpr long long kInterleavings = 3000;
#endif

TEST(ServerProtocol, KeepsItsPromisesInEveryInterleaving) {
  const auto one = env_integer("DISTDL_INTERLEAVING");
  const long long first = one.value_or(1);
  const long long count = one ? 1 : env_integer("DISTDL_INTERLEAVINGS").value_or(kInterleavings);
  std::size_t events = 0, messages = 0, again = 0;
  long long restarts = 0;
  int failures = 0;
  std::array<std::int64_t, 3> staleness{};
  for (long long seed = first; seed < first + count && failures < 5; ++seed) {
    const Interleaving interleaving = make_interleaving(static_cast<std::uint64_t>(seed));
    const Outcome outcome = simulate(interleaving, one.has_value());
    events += outcome.events;
    messages += outcome.messages;
    again += outcome.computed_again;
    restarts += outcome.has_restarted;
    std::int64_t& most = staleness[static_cast<std::size_t>(interleaving.rules.mode)];
    most = std::max(most, outcome.most_staleness);
    if (outcome.broken.empty()) continue;
    ++failures;
    ADD_FAILURE() << describe(interleaving) << "\n" << outcome.broken;
  }
  std::printf(
      "%lld interleavings, %zu events, %zu messages; %lld restarts, %zu gradients computed again; updates lacked at "
      "most: "
      "%lld synchronous, %lld bounded, %lld asynchronous\n",
      count, events, messages, restarts, again, static_cast<long long>(staleness[0]),
      static_cast<long long>(staleness[1]), static_cast<long long>(staleness[2]));
  if (one) return;
  // The faults have found something to disturb.
  EXPECT_GT(again, 0u);
  EXPECT_GT(staleness[1], 0);
  EXPECT_GT(staleness[2], 0);
  EXPECT_LT(restarts, count / 4);
}

TEST(ServerProtocol, GivesTheSameOutcomeForTheSameSeed) {
  const Interleaving interleaving = make_interleaving(7);
  EXPECT_EQ(simulate(interleaving).events, simulate(interleaving).events);
}

TEST(ServerRules, RefusesNumbersThatMakeNoRun) {
  EXPECT_NO_THROW(check(Rules{}));
  for (const auto& change :
       {+[](Rules& rules) { rules.microbatches = 0; }, +[](Rules& rules) { rules.steps = 0; },
        +[](Rules& rules) { rules.ranges = 0; }, +[](Rules& rules) { rules.pieces = 0; },
        +[](Rules& rules) { rules.late_ticks = 0; }, +[](Rules& rules) { rules.staleness = -1; },
        +[](Rules& rules) { rules.staleness = 1; }, +[](Rules& rules) { rules.microbatches = std::int64_t{1} << 31; },
        +[](Rules& rules) { rules.steps = std::int64_t{1} << 31; }}) {
    Rules rules;
    change(rules);
    EXPECT_THROW(check(rules), ConfigError);
  }
}

TEST(ServerRules, CountsStalenessInSteps) {
  Rules rules{.mode = Mode::bounded, .staleness = 2, .microbatches = 4, .steps = 10};
  EXPECT_FALSE(is_fresh(rules, 2, Microbatch(20)));  // of step 5
  EXPECT_TRUE(is_fresh(rules, 3, Microbatch(20)));
  rules.mode = Mode::asynchronous;
  EXPECT_TRUE(is_fresh(rules, 0, Microbatch(20)));
}

}  // namespace
}  // namespace distdl::parallel::server::simulation
