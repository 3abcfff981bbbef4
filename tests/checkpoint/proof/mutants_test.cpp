// SPDX-License-Identifier: Apache-2.0
// C4: with any one safeguard taken away, one of the proofs sees a promise broken. With all of them in place, none does.
#include <algorithm>

#include <gtest/gtest.h>

#include "mutation.hpp"
#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include <distdl/base/clock.hpp>

namespace distdl::checkpoint::proof {
namespace {
using distdl_mutation::Mutant;

struct Proof {
  std::string name;
  std::function<ProofResult()> hold;
};

std::vector<Proof> proofs(int stride = 1) {
  Effort effort{.random_cases = 100, .stop_at_first = true, .stride = stride}, damages = effort;
  damages.random_cases = 600;
  Effort short_writes = effort;
  short_writes.only_fault = "short write";
  auto power_loss = [=](const Story& story) { return [=] { return prove_power_loss(story, effort); }; };
  auto kills = [=](const Story& story) { return [=] { return prove_kills(story, effort); }; };
  return {{"C6", [=] { return prove_damage(damages); }},
          {"C6 saved again", [=] { return prove_saving_over_damage(effort); }},
          {"C3", power_loss(new_step(2))},
          {"C3 same step", power_loss(same_step_again(1))},
          {"C3 damage", power_loss(damaged_newest())},
          {"C3 unseen damage", power_loss(damaged_and_not_seen())},
          {"C1", kills(new_step(1))},
          {"C1 same step", kills(same_step_again(1))},
          {"C3 after a fault", [=] { return prove_fault_and_power_loss(effort); }},
          {"C5 large", [=] { return prove_faults(large_step(), short_writes); }},
          {"C7", [=] { return prove_snapshots(effort); }},
          {"R1", [=] { return prove_lost_nodes(effort); }},
          {"C5", [=] { return prove_faults(new_step(1), effort); }},
          {"two runs", [=] { return prove_fence(effort); }}};
}

class Mutation : public testing::TestWithParam<Mutant> {
 protected:
  ~Mutation() override { distdl_mutation::take_away(""); }
};

TEST_P(Mutation, IsCaught) {
  distdl_mutation::take_away(GetParam().name);
  std::vector<Proof> all = proofs();
  std::stable_partition(all.begin(), all.end(), [](const Proof& proof) { return proof.name == GetParam().proof; });
  EXPECT_EQ(all.front().name, GetParam().proof);
  for (const Proof& proof : all) {
    std::string broken;
    try {
      ProofResult verdict = proof.hold();
      if (!verdict.broken.empty()) broken = verdict.broken[0];
    } catch (const std::exception& error) {  // not even the folder before the story could be made
      broken = error.what();
    }
    if (broken.empty()) continue;
    std::printf("%s: caught by %s: %s\n", GetParam().name.c_str(), proof.name.c_str(), broken.c_str());
    return;
  }
  ADD_FAILURE() << "no proof saw that " << GetParam().name;
}
INSTANTIATE_TEST_SUITE_P(Safeguard, Mutation, testing::ValuesIn(distdl_mutation::mutants()),
                         [](const auto& test) { return test_name(test.param.name); });

TEST(Mutants, NothingIsCaughtWhenNothingIsTakenAway) {
  EXPECT_GE(distdl_mutation::mutants().size(), 12u);
  for (const Proof& proof : proofs(stride())) {
    Stopwatch watch;
    ProofResult verdict = proof.hold();
    std::printf("%s: %zu cases in %.1f s\n", proof.name.c_str(), verdict.cases, watch.seconds());
    EXPECT_GT(verdict.cases, 0u) << proof.name;
    for (const std::string& broken : verdict.broken) ADD_FAILURE() << proof.name << ": " << broken;
  }
}
}  // namespace
}  // namespace distdl::checkpoint::proof
