// SPDX-License-Identifier: Apache-2.0
// C4: with any one safeguard taken away, one of the proofs sees a promise broken. With all of them in place, none does.
#include <gtest/gtest.h>

#include "mutation.hpp"
#include "tests/checkpoint/proof/proofs.hpp"
#include "tests/checkpoint/proof/quiet.hpp"

namespace distdl::checkpoint::proof {
namespace {
using distdl_mutation::Mutant;

struct Proof {
  std::string name;
  std::function<Verdict()> hold;
};

/// The cheap ones first.
std::vector<Proof> proofs() {
  Effort effort{.first_seed = 0, .random_cases = 100, .stop_at_first = true};
  std::vector<Proof> all{{"C6 damage", [=] { return prove_damage(effort); }}};
  for (const Story& story : {new_step(2), same_step_again(1), damaged_newest(), damaged_and_not_seen()})
    all.push_back({"C3 power loss", [=] { return prove_power_loss(story, effort); }});
  for (const Story& story : {new_step(1), same_step_again(1)})
    all.push_back({"C1 kills", [=] { return prove_kills(story, effort); }});
  all.push_back({"C3 power loss after a fault", [=] { return prove_fault_and_power_loss(effort); }});
  all.push_back({"C5 faults", [=] { return prove_faults(new_step(2), effort); }});
  all.push_back({"two runs", [=] { return prove_fence(effort); }});
  return all;
}

class Mutation : public testing::TestWithParam<Mutant> {
 protected:
  ~Mutation() override { distdl_mutation::take_away(""); }
};

TEST_P(Mutation, IsCaught) {
  ASSERT_EQ(GetParam().stale, "") << "bring tests/checkpoint/proof/mutants.py up to date";
  distdl_mutation::take_away(GetParam().name);
  for (const Proof& proof : proofs()) {
    std::string broken;
    try {
      Verdict verdict = proof.hold();
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
INSTANTIATE_TEST_SUITE_P(Safeguard, Mutation, testing::ValuesIn(distdl_mutation::mutants()), [](const auto& test) {
  std::string name;
  for (char c : test.param.name)
    if (std::isalnum(static_cast<unsigned char>(c)) || c == ' ') name += c == ' ' ? '_' : c;
  return name;
});

TEST(Mutants, NothingIsCaughtWhenNothingIsTakenAway) {
  EXPECT_GE(distdl_mutation::mutants().size(), 12u);
  for (const Proof& proof : proofs()) {
    Verdict verdict = proof.hold();
    EXPECT_GT(verdict.cases, 0u) << proof.name;
    for (const std::string& broken : verdict.broken) ADD_FAILURE() << proof.name << ": " << broken;
  }
}
}  // namespace
}  // namespace distdl::checkpoint::proof
