// SPDX-License-Identifier: Apache-2.0
// C5 and fencing: disks that fail at every operation, and two runs that want the same folder.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

void expect_none(const char* what, const ProofResult& verdict, std::size_t least = 100) {
  std::printf("%zu %s\n", verdict.cases, what);
  EXPECT_GT(verdict.cases, least);
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}

TEST(Faults, AtEveryOperationLeaveTheOldCheckpointAndLetTrainingGoOn) {
  expect_none("faults with two ranks", prove_faults(new_step(2), {.stride = stride()}), 100 / stride());
  expect_none("short writes of a large step",
              prove_faults(large_step(), {.only_fault = "short write", .stride = stride()}), 15 / stride());
  if (!is_long_run()) return;
  expect_none("faults with a large step", prove_faults(large_step(), {}));
  expect_none("faults where a step is saved again", prove_faults(same_step_again(1), {}));
}
TEST(Faults, BeforeALossOfPower) {
  expect_none("losses of power after a fault", prove_fault_and_power_loss({.stride = stride()}), 100 / stride());
}
TEST(TwoRuns, HaveOneWinnerHoweverTheyInterleave) {
  expect_none("meetings of two runs", prove_fence({.thorough = is_long_run()}));
}
}  // namespace
}  // namespace distdl::checkpoint::proof
