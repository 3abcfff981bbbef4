// SPDX-License-Identifier: Apache-2.0
// C6: 2,000 damaged checkpoints, with a sanitizer 250, in the long run 20,000 and more, none of them restored.
#include <gtest/gtest.h>

#include "tests/checkpoint/proof/effort.hpp"
#include "tests/checkpoint/proof/proofs.hpp"

namespace distdl::checkpoint::proof {
namespace {
TEST(Damage, IsNeverRestored) {
  ProofResult verdict = prove_damage({.first_seed = first_seed(), .random_cases = cases(2000, 20'000)});
  std::printf("%zu damaged checkpoints\n", verdict.cases);
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}
TEST(Damage, OfCompressedCheckpointsIsNeverRestored) {
  ProofResult verdict = prove_damage({.first_seed = first_seed(), .random_cases = cases(2000, 20'000)}, "shuffle+zstd");
  std::printf("%zu damaged checkpoints\n", verdict.cases);
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}
TEST(Damage, IsNotTakenForWhatIsToBeSaved) {
  ProofResult verdict = prove_saving_over_damage({.first_seed = first_seed(), .random_cases = cases(300, 3000)});
  for (const std::string& broken : verdict.broken) ADD_FAILURE() << broken;
}
}  // namespace
}  // namespace distdl::checkpoint::proof
