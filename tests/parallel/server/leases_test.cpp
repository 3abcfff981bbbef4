// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/parallel/server/leases.hpp>

namespace distdl::parallel::server {
namespace {

constexpr Node kOne{1}, kTwo{2};
const Rules kRules{.mode = Mode::synchronous, .microbatches = 2, .steps = 3, .late_ticks = 3};

Ask ask(const Leases::Given& given, Phase phase, bool is_done = false) {
  return {given.id, given.microbatch, phase, is_done};
}

TEST(MicrobatchSet, CountsEachOnceInAnyOrder) {
  MicrobatchSet set;
  EXPECT_TRUE(set.add(Microbatch(2)));
  EXPECT_TRUE(set.add(Microbatch(0)));
  EXPECT_FALSE(set.add(Microbatch(2)));
  EXPECT_EQ(set.below(), Microbatch(1));
  EXPECT_EQ(set.size(), 2);
  EXPECT_TRUE(set.add(Microbatch(1)));
  EXPECT_EQ(set.below(), Microbatch(3));
  EXPECT_FALSE(set.add(Microbatch(0)));
}

TEST(MicrobatchSet, IntersectionHasWhatBothHave) {
  MicrobatchSet a, b;
  for (const int i : {0, 1, 2, 5, 7}) a.add(Microbatch(i));
  for (const int i : {0, 2, 3, 5, 6}) b.add(Microbatch(i));
  MicrobatchSet both;
  for (const int i : {0, 2, 5}) both.add(Microbatch(i));
  EXPECT_EQ(intersection(a, b), both);
  EXPECT_EQ(intersection(b, a), both);
}

TEST(Leases, GivesEachMicrobatchToOneWorkerAndRepeatsWhatWasLost) {
  Leases leases(kRules, Leadership(1), {});
  const auto a = leases.answer(kOne, {}), b = leases.answer(kTwo, {});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->microbatch, Microbatch(0));
  EXPECT_EQ(b->microbatch, Microbatch(1));
  EXPECT_EQ(leases.answer(kOne, {})->id, a->id);
  EXPECT_EQ(leases.answer(kOne, ask(*a, Phase::working))->id, a->id);
  const auto next = leases.answer(kOne, ask(*a, Phase::idle, true));
  EXPECT_EQ(next->microbatch, Microbatch(2));
  EXPECT_EQ(leases.answer(kOne, ask(*a, Phase::idle, true))->id, next->id);  // a repeated question
}

TEST(Leases, GoesOneStepAheadAtMost) {
  Leases leases(kRules, Leadership(1), {});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(leases.answer(Node(i), {}));
  EXPECT_FALSE(leases.answer(Node(4), {}));
}

TEST(Leases, ALostWorkerCostsItsLease) {
  Leases leases(kRules, Leadership(1), {});
  leases.answer(kOne, {});
  leases.lost(kOne);
  EXPECT_EQ(leases.answer(kTwo, {})->microbatch, Microbatch(0));
}

TEST(Leases, ALateMicrobatchIsGivenToAnotherWorkerToo) {
  Leases leases(kRules, Leadership(1), {});
  const auto slow = leases.answer(kOne, {});
  for (int i = 0; i <= kRules.late_ticks; ++i) leases.tick();
  const auto fast = leases.answer(kTwo, {});
  EXPECT_EQ(fast->microbatch, slow->microbatch);
  EXPECT_EQ(leases.answer(kOne, ask(*slow, Phase::working))->id, slow->id);
  leases.answer(kTwo, ask(*fast, Phase::idle, true));
  EXPECT_NE(leases.answer(kOne, ask(*slow, Phase::working))->microbatch, slow->microbatch);  // somebody has done it
}

TEST(Leases, AWorkerThatWaitsForParametersTakesAnEarlierMicrobatch) {
  Leases leases(kRules, Leadership(1), {});
  leases.answer(kOne, {});
  const auto later = leases.answer(kTwo, {});
  leases.lost(kOne);
  const auto earlier = leases.answer(kTwo, ask(*later, Phase::pulling));
  EXPECT_EQ(earlier->microbatch, Microbatch(0));
  EXPECT_GT(earlier->id, later->id);
}

TEST(Leases, ANewSchedulerLetsWorkersGoOn) {
  Leases before(kRules, Leadership(1), {});
  const auto given = before.answer(kOne, {});
  Leases leases(kRules, Leadership(2), {});
  EXPECT_EQ(leases.answer(kOne, ask(*given, Phase::working))->id, given->id);
  EXPECT_EQ(leases.answer(kTwo, {})->microbatch, Microbatch(1));
}

TEST(Leases, EndsWhenAllMicrobatchesAreDone) {
  Leases leases(kRules, Leadership(1), {});
  for (int i = 0; i < 6; ++i) {
    const auto given = leases.answer(kOne, {});
    ASSERT_TRUE(given);
    leases.answer(kOne, ask(*given, Phase::idle, true));
    leases.lost(kOne);
  }
  EXPECT_TRUE(leases.is_finished());
}

TEST(Leases, EndWithTheStepsThatHaveBegunIfTheyAreToEndSoon) {
  Leases leases(kRules, Leadership(1), {});
  const auto first = leases.answer(kOne, {});
  leases.end_soon();
  EXPECT_EQ(leases.steps(), 1);
  EXPECT_EQ(leases.answer(kTwo, {})->microbatch, Microbatch(1)) << "the step is done as a whole";
  EXPECT_FALSE(leases.answer(kOne, ask(*first, Phase::idle, true)));
  EXPECT_FALSE(leases.is_finished());
  leases.answer(kTwo, {{Leadership(1), 2}, Microbatch(1), Phase::idle, true});
  EXPECT_TRUE(leases.is_finished());
}

TEST(Leases, ThatAreToEndBeforeTheyBeginHaveOneStep) {
  Leases leases(kRules, Leadership(1), {});
  leases.end_soon();
  EXPECT_EQ(leases.steps(), 1);
}

}  // namespace
}  // namespace distdl::parallel::server
