// SPDX-License-Identifier: Apache-2.0
// C7 and the levels above the file system: what is between training and the disk.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {

void expect_none(const char* what, const ProofResult& verdict) {
  std::printf("%zu %s\n", verdict.cases, what);
  EXPECT_GT(verdict.cases, 15u);
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}

TEST(Snapshots, AreWhatTheyWereWhenTheyWereTaken) {
  expect_none("cases of snapshots", prove_snapshots({}));
}
TEST(LostNodes, GiveBackNothingWrongWhenBytesAreDamagedToo) {
  expect_none("damaged letters and snapshots", prove_lost_nodes({}));
}
}  // namespace
}  // namespace distdl::checkpoint::proof
