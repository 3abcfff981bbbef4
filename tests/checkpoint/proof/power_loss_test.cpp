// SPDX-License-Identifier: Apache-2.0
// C3: power is lost at every moment of a save, and the disk keeps of what was not synced whatever it likes.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

class PowerLoss : public testing::TestWithParam<Story> {};

TEST_P(PowerLoss, LeavesAPromisedCheckpoint) {
  ProofResult verdict = prove_power_loss(
      GetParam(),
      {.first_seed = first_seed(), .random_cases = cases(1000, 20'000) / all_stories().size() + 1, .stride = stride()});
  std::printf("%zu losses of power in \"%s\"\n", verdict.cases, GetParam().name.c_str());
  EXPECT_GT(verdict.cases, 500u / stride());
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}
INSTANTIATE_TEST_SUITE_P(Story, PowerLoss, testing::ValuesIn(all_stories()),
                         [](const auto& test) { return test_name(test.param.name); });
}  // namespace
}  // namespace distdl::checkpoint::proof
