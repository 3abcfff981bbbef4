// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <set>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/audit/audit_rules.hpp>
#include <distdl/train/bit_flip.hpp>

namespace distdl::train {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint32_t kBad = 999;

parallel::MicrobatchPlan plan_for(int ranks) {
  return parallel::make_plan({.microbatches = 12, .microbatch_size = 2}, ranks);
}

/// The gradients of a microbatch in a part of the model, as a rank that is right computes them.
std::uint32_t right(int microbatch, int part = 0) {
  return 100 + 20 * static_cast<std::uint32_t>(part) + static_cast<std::uint32_t>(microbatch);
}

/// The audit of some ranks, all right so far.
struct Audit {
  explicit Audit(int ranks, std::int64_t number = 0, const std::vector<int>& parts = {0})
      : pairs(audit_pairs(plan_for(ranks / static_cast<int>(parts.size())), number, parts)) {
    for (int r = 0; r < ranks; ++r) {
      const int part = pairs.part_of(r);
      first.push_back({{7, 8 + static_cast<std::uint32_t>(part)},
                       {right(pairs.microbatch[r], part), right(pairs.microbatch[pairs.checks[r]], part)}});
    }
  }
  /// What rank `rank` finds in the second round; the other ones are right.
  AuditVerdict verdict(const std::function<std::uint32_t(int rank, int microbatch)>& of = {}) {
    const auto findings = findings_of(pairs, first);
    std::vector<AuditAnswer> second;
    for (int r = 0; findings.is_open() && r < static_cast<int>(first.size()); ++r) {
      second.push_back({again.empty() ? first[r].state : again[r], {}});
      for (int owner : findings.disputed) {
        const int m = pairs.microbatch[owner];
        second.back().gradients.push_back(of ? of(r, m) : right(m, pairs.part_of(r)));
      }
    }
    return verdict_of(pairs, findings, first, second);
  }
  AuditPairs pairs;
  std::vector<AuditAnswer> first;
  std::vector<std::vector<std::uint32_t>> again;  ///< states in the second round
};

TEST(AuditPairs, EachRankChecksEachOtherOneAndEachMicrobatchInTurn) {
  for (int ranks : {2, 3, 5, 12}) {
    const auto plan = plan_for(ranks);
    std::set<std::pair<int, int>> checked;
    std::set<int> microbatches;
    for (int audit = 0; audit < (ranks - 1) * 12; ++audit) {
      const auto pairs = audit_pairs(plan, audit);
      EXPECT_EQ(std::set<int>(pairs.checks.begin(), pairs.checks.end()).size(), static_cast<std::size_t>(ranks));
      for (int r = 0; r < ranks; ++r) {
        EXPECT_NE(pairs.checks[r], r);
        const auto range = plan.of(Rank(r));
        EXPECT_TRUE(pairs.microbatch[r] >= range.first && pairs.microbatch[r] < range.first + range.count);
        checked.insert({r, pairs.checks[r]});
        microbatches.insert(pairs.microbatch[r]);
      }
    }
    EXPECT_EQ(checked.size(), static_cast<std::size_t>(ranks * (ranks - 1)));
    EXPECT_EQ(microbatches.size(), 12u);
  }
}

TEST(AuditAnswer, TravelsAsText) {
  const AuditAnswer answer{{1, 0xffffffff}, {0, 3, 4}};
  const auto copy = audit_answer_from(to_text(answer));
  EXPECT_EQ(copy.state, answer.state);
  EXPECT_EQ(copy.gradients, answer.gradients);
  for (const char* text : {"", "abc", "\xff\xff\xff\xff", "\x01\x00\x00\x00\x05"})
    EXPECT_THROW(audit_answer_from(text), CommError) << text;
}

TEST(AuditVerdict, PassesWhereAllAgree) {
  for (int ranks : {1, 2, 3, 12}) {
    Audit audit(ranks, 5);
    EXPECT_TRUE(findings_of(audit.pairs, audit.first).passed());
    EXPECT_THAT(audit.verdict().wrong, IsEmpty());
  }
}

TEST(AuditVerdict, AStateThatIsNotThatOfMostIsWrong) {
  Audit audit(4);
  audit.first[2].state[1] = kBad;
  audit.first[2].gradients = {kBad, kBad + 1};  // which follows
  const auto findings = findings_of(audit.pairs, audit.first);
  EXPECT_FALSE(findings.is_open()) << "needs no second round";
  const auto verdict = audit.verdict();
  EXPECT_THAT(verdict.wrong, ElementsAre(2));
  EXPECT_TRUE(verdict.is_certain);
  EXPECT_THAT(verdict.reason, HasSubstr("rank 2: other parameters"));
}

TEST(AuditVerdict, OfTwoStatesTheOneThatChangesIsWrongElseBothAreNamed) {
  Audit audit(2);
  audit.first[1].state = {7, kBad};
  auto verdict = audit.verdict();
  EXPECT_THAT(verdict.wrong, ElementsAre(0, 1));
  EXPECT_FALSE(verdict.is_certain);
  audit.again = {{7, 8}, {7, 8}};
  verdict = audit.verdict();
  EXPECT_THAT(verdict.wrong, ElementsAre(1));
  EXPECT_TRUE(verdict.is_certain);
}

TEST(AuditVerdict, WhereNothingTellsWhichNodeIsWrongAllRanksEndAlike) {
  AuditVerdict verdict{{1, 2}, true, ""};
  EXPECT_TRUE(ends_as_wrong(verdict, 2, 1));
  EXPECT_FALSE(ends_as_wrong(verdict, 2, 4));
  verdict.is_certain = false;
  EXPECT_TRUE(ends_as_wrong(verdict, 2, 1));
  EXPECT_TRUE(ends_as_wrong(verdict, 2, 4)) << "else agents would leave both nodes out";
  EXPECT_FALSE(ends_as_wrong(verdict, 1, 4)) << "both ranks are on one node";
}

TEST(AuditVerdict, AResultThatWasWrongOnceIsThatOfItsRank) {
  for (int ranks : {1, 2, 3, 5})
    for (std::size_t place : {AuditAnswer::kOwn, AuditAnswer::kRecomputed})
      for (int wrong = 0; wrong < ranks; ++wrong) {
        Audit audit(ranks, 3);
        audit.first[wrong].gradients[place] = kBad;
        const auto verdict = audit.verdict();
        EXPECT_THAT(verdict.wrong, ElementsAre(wrong)) << ranks << " ranks";
        EXPECT_TRUE(verdict.is_certain);
      }
}

TEST(AuditVerdict, ARankThatIsAlwaysWrongIsFoundByAThird) {
  for (int ranks : {3, 4, 7})
    for (int wrong = 0; wrong < ranks; ++wrong) {
      Audit audit(ranks, wrong);
      audit.first[wrong].gradients = {kBad, kBad + 1};
      const auto verdict = audit.verdict([&](int rank, int m) { return rank == wrong ? kBad : right(m); });
      EXPECT_THAT(verdict.wrong, ElementsAre(wrong));
      EXPECT_TRUE(verdict.is_certain);
    }
}

/// An error of a chunk is in the gradients of all ranks that compute together.
TEST(AuditVerdict, OfRanksThatComputeTogetherAllAreNamedUnlessOneAloneIsWrong) {
  for (const bool sticks : {false, true}) {
    Audit audit(6, 1, {0, 0});
    EXPECT_TRUE(findings_of(audit.pairs, audit.first).passed());
    for (const int rank : {2, 3}) audit.first[rank].gradients = {kBad, kBad + 1};
    const auto verdict = audit.verdict([&](int rank, int m) { return sticks && rank / 2 == 1 ? kBad : right(m); });
    EXPECT_THAT(verdict.wrong, ElementsAre(2, 3));
    EXPECT_FALSE(verdict.is_certain);
    EXPECT_THAT(verdict.reason, HasSubstr("ranks 2, 3: other gradients than most ranks compute, and nothing tells"));
  }
  Audit alone(4, 0, {0, 0});
  alone.first[3].gradients[AuditAnswer::kOwn] = kBad;
  EXPECT_THAT(alone.verdict().wrong, ElementsAre(3));
  EXPECT_TRUE(alone.verdict().is_certain);
  Audit state(4, 0, {0, 0});
  state.first[3].state[1] = kBad;
  for (const int rank : {2, 3}) state.first[rank].gradients = {kBad, kBad};  // which follows
  EXPECT_FALSE(findings_of(state.pairs, state.first).is_open());
  EXPECT_THAT(state.verdict().wrong, ElementsAre(3));
}

TEST(AuditPairs, KnowWhichRanksHoldTheSamePart) {
  EXPECT_THAT(audited_parts({.data = 3}), ElementsAre(0));
  EXPECT_THAT(audited_parts({.context = 2}), ElementsAre(0, 0));
  EXPECT_THAT(audited_parts({.pipeline = 2, .tensor = 2, .context = 2}), ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
}

/// Tensor ranks and stages of a pipeline: what one gets wrong is in the results of the others.
TEST(AuditVerdict, OfRanksThatHoldPartsTheWholeGroupIsNamedUnlessAStateIsWrong) {
  for (const bool sticks : {false, true}) {
    Audit audit(6, 1, {0, 1});
    EXPECT_TRUE(findings_of(audit.pairs, audit.first).passed());
    audit.first[3].gradients = {kBad, kBad + 1};
    const auto verdict = audit.verdict(
        [&](int rank, int m) { return sticks && rank == 3 ? kBad : right(m, audit.pairs.part_of(rank)); });
    EXPECT_THAT(verdict.wrong, ElementsAre(2, 3));
    EXPECT_FALSE(verdict.is_certain);
  }
  Audit state(6, 1, {0, 1});
  state.first[3].state[1] = kBad;
  EXPECT_THAT(state.verdict().wrong, ElementsAre(3));
  EXPECT_TRUE(state.verdict().is_certain);
  Audit two(4, 1, {0, 1});
  two.first[3].state[1] = kBad;
  EXPECT_THAT(two.verdict().wrong, ElementsAre(1, 3)) << "nothing tells which of these";
  EXPECT_FALSE(two.verdict().is_certain);
  two.again = {{7, 8}, {7, 9}, {7, 8}, {7, 9}};
  EXPECT_THAT(two.verdict().wrong, ElementsAre(3)) << "whose second look differs";
  Audit one(2, 1, {0, 1});
  one.first[1].gradients[AuditAnswer::kOwn] = kBad;
  EXPECT_THAT(one.verdict().wrong, ElementsAre(0, 1));
  Audit random(4, 0, {0, 1});
  random.first[3].gradients[AuditAnswer::kOwn] = kBad;
  const auto changing = random.verdict([&](int rank, int m) { return rank == 3 ? kBad + 1 : right(m, rank % 2); });
  EXPECT_THAT(changing.wrong, ElementsAre(2, 3));
  EXPECT_FALSE(changing.is_certain);
}

TEST(AuditVerdict, OfTwoRanksThatStickToTheirResultsBothAreNamed) {
  Audit audit(2);
  const auto m = audit.pairs.microbatch;
  audit.first[1].gradients = {kBad, kBad};
  const auto verdict = audit.verdict([&](int rank, int microbatch) { return rank == 1 ? kBad : right(microbatch); });
  EXPECT_THAT(verdict.wrong, ElementsAre(0, 1));
  EXPECT_FALSE(verdict.is_certain);
  std::uint32_t random = kBad;
  const auto other = audit.verdict([&](int rank, int microbatch) { return rank == 1 ? ++random : right(microbatch); });
  EXPECT_THAT(other.wrong, ElementsAre(1)) << "which changes its answer";
  EXPECT_TRUE(other.is_certain);
}

TEST(AuditVerdict, NamesTwoRanksWithDifferentFaults) {
  Audit audit(5);
  audit.first[1].state[0] = kBad;
  audit.first[3].gradients[AuditAnswer::kOwn] = kBad;
  EXPECT_THAT(audit.verdict().wrong, ElementsAre(1, 3));
}

TEST(BitFlip, IsReadFromText) {
  EXPECT_FALSE(bit_flip_from({}));
  const auto flip = bit_flip_from("gradients:2:30:5");
  EXPECT_EQ(flip->where, BitFlip::Where::gradients);
  EXPECT_FALSE(flip->is_due(Rank(2), Step(29)));
  EXPECT_TRUE(flip->is_due(Rank(2), Step(34)));
  EXPECT_FALSE(flip->is_due(Rank(2), Step(35)));
  EXPECT_FALSE(flip->is_due(Rank(1), Step(30)));
  EXPECT_EQ(bit_flip_from("parameters:0:7")->steps, 1);
  for (const char* text :
       {"weights:0:7", "parameter:0:7", "parameters:0", "parameters:0:x", "parameters:-1:7", "gradients:0:1:2:3", ":"})
    EXPECT_THROW(bit_flip_from(text), ConfigError) << text;
}

}  // namespace
}  // namespace distdl::train
