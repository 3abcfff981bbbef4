// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/base/restart.hpp>

namespace distdl {
namespace {

constexpr auto F = RestartDecision::finished;
constexpr auto L = RestartDecision::resume_later;
constexpr auto R = RestartDecision::relaunch;
constexpr auto G = RestartDecision::give_up;

constexpr int kOutsideOfTheTable = 1;  ///< as srun's own, or a shell's
constexpr int kKilled = 137;
constexpr int kOfSlurm = 233;

/// The decisions about one code: without evidence, and with one fact each, in the order of kFacts.
struct Row {
  int code;
  std::array<RestartDecision, 8> decisions;
};

struct Fact {
  std::string_view name;
  RestartEvidence evidence;
};

const std::array<Fact, 8> kFacts{{{"nothing", {}},
                                  {"has_trained", {.has_trained = true}},
                                  {"by_later_job", {.by_later_job = true}},
                                  {"told_to_stop", {.told_to_stop = true}},
                                  {"was_taken_away", {.was_taken_away = true}},
                                  {"has_newcomers", {.has_newcomers = true}},
                                  {"may_be_of_srun", {.may_be_of_srun = true}},
                                  {"is_stuck", {.is_stuck = true}}}};

const std::vector<Row> kRule{
    // code       none trained later stop taken newcomers srun stuck
    {0, {F, F, F, F, F, F, F, F}},   // ok
    {2, {G, G, G, G, G, R, G, G}},   // corrupt
    {3, {G, R, R, G, G, R, G, G}},   // incomplete
    {4, {G, G, G, G, G, R, G, G}},   // incompatible
    {64, {G, G, G, G, G, R, G, G}},  // usage
    {69, {R, R, R, L, G, R, R, G}},  // peer lost
    {70, {R, R, R, L, G, R, R, G}},  // internal
    {71, {R, R, R, L, G, R, R, G}},  // scheduler
    {72, {R, R, R, L, G, R, R, G}},  // corruption
    {73, {G, G, G, G, G, R, G, G}},  // superseded
    {74, {G, R, R, G, G, R, G, G}},  // storage
    {75, {L, L, L, L, G, L, L, L}},  // requeue
    {76, {G, G, G, G, G, R, G, G}},  // stopped
    {77, {G, G, G, G, G, R, G, G}},  // irreproducible
    {78, {G, G, G, G, G, R, G, G}},  // configuration
    {79, {R, R, R, L, G, R, R, G}},  // program failed
    {kOutsideOfTheTable, {G, G, G, G, G, R, R, G}},
    {kKilled, {R, R, R, L, G, R, R, G}},
    {kOfSlurm, {R, R, R, L, G, R, R, G}},
};

TEST(Restart, FollowsTheTableForEachCodeAndFact) {
  for (const Row& row : kRule)
    for (std::size_t fact = 0; fact < kFacts.size(); ++fact)
      EXPECT_EQ(decide_restart(row.code, kFacts[fact].evidence), row.decisions[fact])
          << row.code << " with " << kFacts[fact].name;
}

TEST(Restart, HasARowForEachExitCode) {
  for (const ExitCodeEntry& entry : kExitCodes)
    EXPECT_TRUE(std::ranges::any_of(kRule, [&](const Row& row) { return row.code == static_cast<int>(entry.code); }))
        << entry.name;
}

/// All 128 combinations of facts, in the order of precedence that decide_restart() states.
TEST(Restart, PutsFactsInOrder) {
  for (unsigned facts = 0; facts < 128; ++facts) {
    const auto has = [&](unsigned bit) { return (facts >> bit & 1) != 0; };
    const RestartEvidence evidence{.has_trained = has(0),
                                   .by_later_job = has(1),
                                   .told_to_stop = has(2),
                                   .was_taken_away = has(3),
                                   .has_newcomers = has(4),
                                   .may_be_of_srun = has(5),
                                   .is_stuck = has(6)};
    const auto relaunched = evidence.told_to_stop ? L : evidence.is_stuck ? G : R;
    const bool files_pass = evidence.has_trained || evidence.by_later_job;
    const auto expected = [&](int code) {
      if (code == 0) return F;
      if (evidence.was_taken_away) return G;
      if (code == 75) return L;
      const bool can_help = restart_decision(code) == R || evidence.has_newcomers ||
                            (files_pass && (code == 3 || code == 74)) ||
                            (evidence.may_be_of_srun && code == kOutsideOfTheTable);
      return can_help ? relaunched : G;
    };
    for (const Row& row : kRule)
      EXPECT_EQ(decide_restart(row.code, evidence), expected(row.code)) << row.code << " with facts " << facts;
  }
}

TEST(Restart, MayHelpWhereOnlyFilesWereMissing) {
  for (const Row& row : kRule) {
    const bool is_about_files = row.code == 3 || row.code == 74;
    EXPECT_EQ(may_pass(row.code, {.has_trained = true}), is_about_files) << row.code;
    EXPECT_EQ(may_pass(row.code, {.by_later_job = true}), is_about_files) << row.code;
    EXPECT_FALSE(may_pass(row.code, {})) << row.code;
  }
}

TEST(Restart, BlamesNewcomersForWhatARelaunchCannotHelp) {
  for (const Row& row : kRule) {
    EXPECT_EQ(blames_newcomers(row.code, {.has_newcomers = true}), restart_decision(row.code) == G) << row.code;
    EXPECT_FALSE(blames_newcomers(row.code, {.was_taken_away = true, .has_newcomers = true})) << row.code;
    EXPECT_FALSE(blames_newcomers(row.code, {})) << row.code;
  }
}

TEST(Restart, KnowsTheEndsThatWerePlanned) {
  for (const Row& row : kRule)
    EXPECT_EQ(is_planned_end(row.code), row.code == 0 || row.code == 75 || row.code == 76) << row.code;
}

}  // namespace
}  // namespace distdl
