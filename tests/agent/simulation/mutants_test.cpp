// SPDX-License-Identifier: Apache-2.0
// With any one safeguard taken away, some schedule breaks a promise.
#include <cctype>
#include <cstdio>

#include <gtest/gtest.h>

#include "mutation.hpp"
#include "tests/agent/simulation/simulator.hpp"

namespace distdl::agent::simulation {
namespace {
using distdl_mutation::Mutant;

constexpr std::uint64_t kSchedules = 20000;

/// Runs schedules until one breaks a promise.
void expect_caught(const std::string& name, const Safeguards& safeguards) {
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    const Outcome outcome = simulate(seed, safeguards);
    if (outcome.broken.empty()) continue;
    std::printf("%s: caught by schedule %llu: %s\n", name.c_str(), static_cast<unsigned long long>(seed),
                outcome.broken.front().c_str());
    return;
  }
  ADD_FAILURE() << "no schedule saw that " << name;
}

class Mutation : public testing::TestWithParam<Mutant> {
 protected:
  ~Mutation() override { distdl_mutation::take_away(""); }
};

TEST_P(Mutation, IsCaught) {
  distdl_mutation::take_away(GetParam().name);
  expect_caught(GetParam().name, {});
}
INSTANTIATE_TEST_SUITE_P(Safeguard, Mutation, testing::ValuesIn(distdl_mutation::mutants()), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

// The run folder's own safeguards, which the agents rely on.
TEST(Mutants, ALedgerThatOverwritesIsCaught) {
  expect_caught("the ledger overwrites", {.exclusive_ledger = false});
}
TEST(Mutants, OwnersThatAreNotFencedAreCaught) {
  expect_caught("any generation commits", {.fencing = false});
}
TEST(Mutants, AnOwnerThatAnOlderGenerationReplacesIsCaught) {
  expect_caught("an older generation takes OWNER", {.ordered_owners = false});
}

TEST(Mutants, NothingIsCaughtWhenNothingIsTakenAway) {
  EXPECT_GE(distdl_mutation::mutants().size(), 8u);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) EXPECT_TRUE(simulate(seed).broken.empty()) << seed;
}

}  // namespace
}  // namespace distdl::agent::simulation
