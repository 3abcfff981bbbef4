// SPDX-License-Identifier: Apache-2.0
// C2: a real file system loses its power in the middle of a save.
#include "tests/checkpoint/proof/ext4.hpp"

#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

void lose_power(const Story& story) {
  static const std::string missing = cannot_make_ext4();
  if (!missing.empty()) GTEST_SKIP() << missing;
  ProofResult verdict = prove_ext4_power_loss(story, {.thorough = is_long_run(), .stride = stride()});
  std::printf("%zu losses of power of ext4 in \"%s\"\n", verdict.cases, story.name.c_str());
  EXPECT_GT(verdict.cases, 150u / stride());
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}

TEST(Ext4PowerLoss, OneRankNewStep) {
  lose_power(new_step(1));
}
TEST(Ext4PowerLoss, TwoRanksNewStep) {
  lose_power(new_step(2));
}
TEST(Ext4PowerLoss, LargeStep) {
  lose_power(large_step());
}
TEST(Ext4PowerLoss, SameStepOtherContents) {
  lose_power(same_step_again(1));
}
}  // namespace
}  // namespace distdl::checkpoint::proof
