// SPDX-License-Identifier: Apache-2.0
// One run's folder, through many kills at random instants: 100, or in the long run 10,000.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {
TEST(RandomKills, LeaveNothingUnreadableAndNothingWrong) {
  RandomKills result = prove_random_kills(cases(100, 10'000), first_seed());
  std::printf("%zu kills, %zu of them during a save; %zu steps saved; %zu unreadable, %zu wrong\n", result.kills,
              result.in_save, result.saves, result.unreadable, result.wrong);
  EXPECT_EQ(result.unreadable, 0u);
  EXPECT_EQ(result.wrong, 0u);
  EXPECT_GT(result.in_save, result.kills / 4);
  EXPECT_GT(result.saves, result.kills / 10);
}
}  // namespace
}  // namespace distdl::checkpoint::proof
