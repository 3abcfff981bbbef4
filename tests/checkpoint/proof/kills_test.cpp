// SPDX-License-Identifier: Apache-2.0
// C1: a run is killed before each of its I/O operations. Whatever remains must be what it promised.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

class Kills : public testing::TestWithParam<Story> {};

TEST_P(Kills, BeforeEveryOperationLeaveAPromisedCheckpoint) {
  ProofResult verdict = prove_kills(GetParam(), {.stride = stride()});
  std::printf("%zu kills in \"%s\"\n", verdict.cases, GetParam().name.c_str());
  EXPECT_GT(verdict.cases, 60u / stride());
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}
INSTANTIATE_TEST_SUITE_P(Story, Kills, testing::ValuesIn(all_stories()),
                         [](const auto& test) { return test_name(test.param.name); });
}  // namespace
}  // namespace distdl::checkpoint::proof
