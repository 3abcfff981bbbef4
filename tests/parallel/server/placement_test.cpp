// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/placement.hpp>

namespace distdl::parallel::server {
namespace {

constexpr Node kA{1}, kB{2}, kC{3};

Inventory with(Term term, bool is_primary, std::optional<Node> partner = {}) {
  return {{}, 0, {{0, term, is_primary, partner, true, {}}}};
}

TEST(Placement, GivesEachRangeToTwoServers) {
  const auto placement = first_placement(3, {kA, kB});
  ASSERT_EQ(placement.size(), 3u);
  EXPECT_EQ(placement[1], (Holders{kB, kA, Term(1)}));
  EXPECT_EQ(first_placement(1, {kA})[0], (Holders{kA, {}, Term(1)}));
  EXPECT_THROW(first_placement(1, {}), ConfigError);
}

TEST(Placement, PartnersAreOnOtherHostsWhereThatIsPossible) {
  EXPECT_EQ(partner_distance({"a"}), 1);
  EXPECT_EQ(partner_distance({"a", "b", "c"}), 1);
  EXPECT_EQ(partner_distance({"a", "a"}), 1);
  EXPECT_EQ(partner_distance({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(partner_distance({"a", "a", "a", "b", "b", "b", "c", "c", "c"}), 3);
  EXPECT_EQ(first_placement(4, {kA, kB, kC, Node(4)}, 2)[3].partner, kB);
}

TEST(Placement, ThePartnerOfALostPrimaryTakesItsPlace) {
  const auto next =
      next_holders(Holders{kA, kB, Term(1)}, 0, {{kB, with(Term(1), false)}, {kC, {}}}, {{kB, 1}, {kC, 0}});
  EXPECT_EQ(next, (Holders{kB, kC, Term(2)}));
}

TEST(Placement, ALostPartnerIsReplacedByTheServerWithTheFewestRanges) {
  const auto next = next_holders(Holders{kA, Node(9), Term(4)}, 0,
                                 {{kA, with(Term(4), true, Node(9))}, {kB, {}}, {kC, {}}}, {{kA, 0}, {kB, 2}, {kC, 1}});
  EXPECT_EQ(next, (Holders{kA, kC, Term(5)}));
}

TEST(Placement, StaysWhileBothAreThere) {
  const Holders last{kA, kB, Term(3)};
  EXPECT_EQ(next_holders(last, 0, {{kA, with(Term(2), true, kC)}, {kB, {}}}, {{kA, 1}, {kB, 0}}), last);
  // A new scheduler takes over what the primary tells.
  EXPECT_EQ(next_holders({}, 0, {{kA, with(Term(3), true, kB)}, {kB, with(Term(3), false)}}, {{kA, 1}, {kB, 1}}), last);
}

TEST(Placement, TheCopyOfTheLatestTermCounts) {
  const auto next =
      next_holders({}, 0, {{kA, with(Term(2), true, kC)}, {kB, with(Term(3), false)}}, {{kA, 1}, {kB, 1}});
  EXPECT_EQ(next, (Holders{kB, kA, Term(4)}));
}

TEST(Placement, AServerAloneGetsAPartnerWhenOneJoins) {
  const Holders alone{kA, {}, Term(1)};
  EXPECT_EQ(next_holders(alone, 0, {{kA, with(Term(1), true)}}, {{kA, 1}}), alone);
  EXPECT_EQ(next_holders(alone, 0, {{kA, with(Term(1), true)}, {kB, {}}}, {{kA, 1}, {kB, 0}}),
            (Holders{kA, kB, Term(2)}));
}

TEST(Placement, WithoutPartnersARangeHasItsServerOnly) {
  const auto placement = first_placement(2, {kA, kB}, 0);
  EXPECT_EQ(placement[0], (Holders{kA, {}, Term(1)}));
  const std::map<Node, Inventory> inventories{{kA, with(Term(1), true)}, {kB, {}}};
  EXPECT_EQ(next_holders({}, 0, inventories, {{kA, 1}, {kB, 0}}, false), placement[0]);
}

TEST(Placement, NobodyHasARangeWhoseHoldersAreLost) {
  EXPECT_FALSE(next_holders(Holders{kA, kB, Term(1)}, 0, {{kC, {}}}, {{kC, 0}}));
}

}  // namespace
}  // namespace distdl::parallel::server
