// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/options.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::agent {
namespace {
TEST(AgentOptions, CountsOfNodesAreAtMostWhatALaunchCanHave) {
  constexpr auto kMost = static_cast<std::int64_t>(kMostNodes);
  EXPECT_NO_THROW(check(Options{.most_nodes = kMost}));
  EXPECT_NO_THROW(check(Options{.spares = kMost}));
  for (const std::int64_t count : {std::int64_t{-1}, kMost + 1, std::int64_t{3000000000}}) {
    EXPECT_THROW(check(Options{.most_nodes = count}), ConfigError) << count;
    EXPECT_THROW(check(Options{.spares = count}), ConfigError) << count;
  }
}
}  // namespace
}  // namespace distdl::agent
