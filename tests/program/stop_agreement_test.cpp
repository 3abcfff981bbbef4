// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/base/exit_codes.hpp>
#include <distdl/program/stop_agreement.hpp>

namespace distdl::program {
namespace {
using Reports = std::vector<RankReport>;

RankReport ended(int code, double at = 1) {
  return {.ended_at = at, .code = code, .has_ended = 1};
}
RankReport asks(std::int64_t call) {
  return {.call = call, .asks = 1};
}

TEST(StopAgreement, TheEndOfAPartIsNoRequestToGoOnLater) {
  for (const int code : {0, 75, 128 + SIGTERM}) {
    Reports reports{ended(code), ended(code)};
    reports[0].wants_stop = kPartIsDone;
    EXPECT_TRUE(conclude(reports).stops);
    EXPECT_EQ(code_of_run(reports, true, false), 0) << code;
    reports[0].wants_stop = 1;
    EXPECT_EQ(code_of_run(reports, true, false), 75) << code;
  }
  Reports failed{ended(74), ended(0)};
  failed[1].wants_stop = kPartIsDone;
  EXPECT_EQ(code_of_run(failed, true, false), 74);
}

TEST(StopAgreement, OneRankThatWasAskedStopsAll) {
  EXPECT_FALSE(conclude(Reports(3)).stops);
  Reports reports(3);
  reports[2].wants_stop = 1;
  EXPECT_TRUE(conclude(reports).stops);
  EXPECT_FALSE(conclude(reports).any_asks);
}

TEST(StopAgreement, TheCallIsOneMoreThanTheHighest) {
  Reports reports{asks(7), asks(9), asks(8)};
  EXPECT_EQ(conclude(reports).stop_at, std::nullopt) << "nobody wants to stop";
  reports[1].wants_stop = 1;
  EXPECT_EQ(conclude(reports).stop_at, 10);
}

TEST(StopAgreement, WaitsUntilTheLastQuestionOfEachRankIsKnown) {
  Reports reports{asks(7), asks(-1)};
  reports[0].wants_stop = 1;
  EXPECT_EQ(conclude(reports).stop_at, std::nullopt);
  reports[1].has_ended = 1;
  EXPECT_EQ(conclude(reports).stop_at, 8) << "not for one that has ended";
  reports[1] = {};
  EXPECT_EQ(conclude(reports).stop_at, std::nullopt) << "it may ask, and nobody has heard of it yet";
  reports[1].call = 0;
  EXPECT_EQ(conclude(reports).stop_at, 8) << "it does not ask";
  reports[0] = {.call = 0, .wants_stop = 1};
  EXPECT_EQ(conclude(reports).stop_at, std::nullopt) << "nobody asks";
}

TEST(StopAgreement, TheFirstFailureIsTheCause) {
  EXPECT_EQ(conclude(Reports{ended(0), RankReport{}}).failed, std::nullopt);
  EXPECT_EQ(conclude(Reports{ended(1, 5.5), RankReport{}, ended(139, 5.25)}).failed, 2);
  EXPECT_EQ(conclude(Reports{ended(75), ended(128 + SIGTERM)}).failed, std::nullopt) << "stopped";
  Reports stopping{ended(1), RankReport{}};
  stopping[1].wants_stop = 1;
  EXPECT_EQ(conclude(stopping).failed, std::nullopt) << "in a stop programs end as they will";
}

TEST(StopAgreement, CodesWithoutAStop) {
  EXPECT_EQ(code_of_run(Reports{ended(0), ended(0)}, false, false), 0);
  EXPECT_EQ(code_of_run(Reports{ended(0), ended(75)}, false, false), 75);
  EXPECT_EQ(code_of_run(Reports{ended(75), ended(1)}, false, false), 79);
  EXPECT_EQ(code_of_run(Reports{ended(1), ended(2)}, false, false), 2) << "no start would help";
  EXPECT_EQ(code_of_run(Reports{ended(0), ended(137)}, false, false), 137);
}

TEST(StopAgreement, CodesAfterAStop) {
  EXPECT_EQ(code_of_run(Reports{ended(0), ended(0)}, true, false), 75) << "stopped, not finished";
  EXPECT_EQ(code_of_run(Reports{ended(0), ended(0)}, true, true), 0) << "finished: it says so";
  EXPECT_EQ(code_of_run(Reports{ended(75), ended(0)}, true, true), 75);
  for (const int code : {128 + SIGTERM, 128 + SIGKILL, 1, 130})
    EXPECT_EQ(code_of_run(Reports{ended(75, 1), ended(code, 2)}, true, false), 75) << code;
  EXPECT_EQ(code_of_run(Reports{ended(75, 2), ended(1, 1)}, true, false), 79) << "it has failed by itself";
  EXPECT_EQ(code_of_run(Reports{ended(143, 1), ended(1, 2), ended(1, 3)}, true, false), 75);
  EXPECT_EQ(code_of_run(Reports{ended(75), ended(128 + SIGSEGV)}, true, false), 128 + SIGSEGV);
  EXPECT_EQ(code_of_run(Reports{ended(75), ended(74)}, true, false), 74) << "the save has failed";
}

TEST(StopAgreement, CodesThatMeanSomethingKeepTheirMeaning) {
  for (const int code : {2, 3, 4, 64, 69, 74, 76, 78, 126, 127, 137, 139}) EXPECT_EQ(code_of_failure(code), code);
  for (const int code : {1, 5, 63, 70, 71, 72, 73, 77, 79, 80, 125}) EXPECT_EQ(code_of_failure(code), 79);
  EXPECT_EQ(restart_decision(79), RestartDecision::relaunch);
}
}  // namespace
}  // namespace distdl::program
