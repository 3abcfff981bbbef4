// SPDX-License-Identifier: Apache-2.0
// With any one safeguard taken away, some interleaving breaks a promise.
#include <array>
#include <cctype>
#include <cstdio>

#include <gtest/gtest.h>

#include "mutation.hpp"
#include "tests/parallel/server/interleaving.hpp"
#include <distdl/base/env.hpp>

namespace distdl::parallel::server::simulation {
namespace {
using distdl_mutation::Mutant;

/// DISTDL_INTERLEAVINGS=N tries others.
const auto kInterleavings = static_cast<std::uint64_t>(env_integer("DISTDL_INTERLEAVINGS").value_or(20000));
/// What is rare happens in these, which therefore come first.
constexpr std::array<std::uint64_t, 6> kRare{433, 1510, 1750, 7686, 10602, 11183};

class Mutation : public testing::TestWithParam<Mutant> {
 protected:
  ~Mutation() override { distdl_mutation::take_away(""); }
};

TEST_P(Mutation, IsCaught) {
  distdl_mutation::take_away(GetParam().name);
  for (std::uint64_t i = 0; i < kRare.size() + kInterleavings; ++i) {
    const std::uint64_t seed = i < kRare.size() ? kRare[i] : i - kRare.size() + 1;
    const Outcome outcome = simulate(make_interleaving(seed));
    if (outcome.broken.empty()) continue;
    std::printf("%s: caught by interleaving %llu: %s\n", GetParam().name.c_str(), static_cast<unsigned long long>(seed),
                outcome.broken.c_str());
    return;
  }
  ADD_FAILURE() << "no interleaving saw that " << GetParam().name;
}
INSTANTIATE_TEST_SUITE_P(Safeguard, Mutation, testing::ValuesIn(distdl_mutation::mutants()), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

TEST(Mutants, NothingIsCaughtWhenNothingIsTakenAway) {
  EXPECT_GE(distdl_mutation::mutants().size(), 20u);
  for (std::uint64_t seed = 1; seed <= 100; ++seed) EXPECT_EQ(simulate(make_interleaving(seed)).broken, "") << seed;
}

}  // namespace
}  // namespace distdl::parallel::server::simulation
