// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <distdl/app/runs/avoided_nodes.hpp>

namespace distdl::app {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<observe::BadNode> kBad{{"n3", "wrong"}, {"n1", "slow"}};
const std::vector<std::string> kUsable{"n1", "n2", "n3", "n4"};

TEST(AvoidedNodes, NeverSoManyThatTheJobCannotStart) {
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 2), ElementsAre("n3", "n1"));
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 3), ElementsAre("n3")) << "the newest";
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 4), IsEmpty());
  EXPECT_THAT(choose_avoided(kBad, kUsable, "", 9), IsEmpty());
}

TEST(AvoidedNodes, CountsWhatTheUserHasExcluded) {
  EXPECT_THAT(choose_avoided(kBad, kUsable, "n[2-4]", 1), IsEmpty()) << "only n1 is left";
  EXPECT_THAT(choose_avoided(kBad, kUsable, "n4", 2), ElementsAre("n3"));
}

TEST(AvoidedNodes, NodesThatAreDownNeedNoExclusion) {
  EXPECT_THAT(choose_avoided(kBad, {"n1", "n2"}, "", 1), ElementsAre("n1"));
  EXPECT_THAT(choose_avoided(kBad, {}, "", 1), IsEmpty());
}
}  // namespace
}  // namespace distdl::app
