// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tests/pace.hpp>
#include <unistd.h>

#include <distdl/agent/inspector.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/ranks/node_ranks.hpp>
#include <distdl/base/activity.hpp>
#include <distdl/base/process.hpp>

// A rank is this program, started again with the filter of a test that is one.
extern "C" [[gnu::noinline]] void hang_in_this_function() {
  for (;;) {
    ::pause();
    asm volatile("");
  }
}

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

Process rank_that(const std::string& what) {
  return {{own_program(), "--gtest_also_run_disabled_tests", "--gtest_filter=ARank.DISABLED_" + what}, {}};
}

void train(int steps) {
  for (int step = 1; step <= steps; ++step) {
    enter_phase(RankPhase::data);
    enter_phase(RankPhase::compute);
    show_step(Step(step));
  }
}

TEST(ARank, DISABLED_HangsInData) {
  const auto beats = Beats::from_environment();
  show_activity();
  std::thread reader([] {
    const ShownThread shown("reader");
    enter_phase(RankPhase::read);
    const ShownFile file("/data/" + std::string(200, 'a') + "/train.h5");
    hang_in_this_function();
  });
  train(20);
  enter_phase(RankPhase::data);
  reader.join();
}

TEST(ARank, DISABLED_WaitsForRank3) {
  const auto beats = Beats::from_environment();
  show_activity();
  train(20);
  enter_phase(RankPhase::reduce);
  for (;; std::this_thread::sleep_for(1ms)) show_wait("all-reduce", 356, 25400, Rank(3));
}

TEST(ARank, DISABLED_HasWrongBits) {
  const auto beats = Beats::from_environment();
  show_activity();
  enter_phase(RankPhase::corrupted);
  hang_in_this_function();
}

TEST(ARank, DISABLED_EndsARound) {
  const auto beats = Beats::from_environment();
  show_activity();
  enter_phase(RankPhase::compute);
  const std::jthread roles([] {
    const ShownThread shown("servers");
    enter_phase(RankPhase::end_round);
    std::this_thread::sleep_for(500ms);
  });
  hang_in_this_function();
}

TEST(ARank, DISABLED_WaitsForItsSum) {
  const auto beats = Beats::from_environment();
  show_activity();
  train(20);
  enter_phase(RankPhase::reduce);
  const std::jthread sum([] {
    const ShownThread shown("sum");
    enter_phase(RankPhase::reduce);
    for (;; std::this_thread::sleep_for(1ms)) show_wait("all-reduce", 356, 25400, Rank(3));
  });
  for (;; std::this_thread::sleep_for(1ms)) show_wait_of("sum");
}

/// Looks until the condition holds.
template <class Condition>
RankReport look_until(const StartedRank& rank, Condition condition) {
  for (const auto end = Deadline::after(20s); !end.expired(); std::this_thread::sleep_for(10ms))
    if (auto report = look_at(rank, paced(300ms)); condition(report)) return report;
  ADD_FAILURE() << "the rank did not get there";
  return {};
}

class RankLook : public ::testing::Test {
 protected:
  const StartedRank& start(const std::string& what) {
    ranks_.emplace(Rank(4), std::vector<Process>{rank_that(what)}, BeatLimits{.between = 60s}, Clock::now());
    rank_ = ranks_->started().at(0);
    return rank_;
  }
  std::optional<NodeRanks> ranks_;
  StartedRank rank_;
};

TEST_F(RankLook, ShowsThreadsAndWhereTheyAre) {
  const auto report = look_until(start("HangsInData"), [](const RankReport& one) {
    return one.threads.size() == 2 && one.threads[0].phase == "data" && one.threads[0].step == 20 &&
           !one.threads[1].stack.empty();
  });
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_EQ(report.rank, Rank(4));
  EXPECT_EQ(report.state, "S");
  EXPECT_EQ(report.threads[0].name, "train");
  EXPECT_EQ(report.threads[1].name, "reader");
  EXPECT_EQ(report.threads[1].phase, "read");
  EXPECT_FALSE(report.threads[1].wait);
  EXPECT_THAT(report.threads[1].stack, ::testing::Contains(HasSubstr("hang_in_this_function (agent_test)")));
  EXPECT_FALSE(report.threads[0].stack.empty());
  EXPECT_EQ(ranks_->reap(), 1u) << "it goes on";
}

TEST_F(RankLook, ShowsForWhomARankWaits) {
  const auto report = look_until(start("WaitsForRank3"),
                                 [](const RankReport& one) { return !one.threads.empty() && one.threads[0].wait; });
  ASSERT_EQ(report.threads.size(), 1u);
  const auto& thread = report.threads[0];
  EXPECT_EQ(thread.phase, "all-reduce");
  EXPECT_EQ(thread.wait->operation, "all-reduce 356");
  EXPECT_EQ(thread.wait->bytes, 25400u);
  EXPECT_EQ(thread.wait->rank, Rank(3));
  EXPECT_TRUE(thread.stack.empty()) << "it is not at the end of a chain: not interrupted";
}

TEST_F(RankLook, AThreadThatWaitsForAnotherOneWaitsForTheSameRank) {
  const auto report = look_until(start("WaitsForItsSum"), [](const RankReport& one) {
    return one.threads.size() == 2 && one.threads[0].wait && one.threads[0].wait->rank;
  });
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_EQ(report.threads[0].name, "train");
  EXPECT_EQ(report.threads[0].wait->operation, "all-reduce 356");
  EXPECT_EQ(report.threads[0].wait->rank, Rank(3));
}

TEST_F(RankLook, AStoppedRankTellsNothingButItsState) {
  const auto& rank = start("HangsInData");
  look_until(rank, [](const RankReport& one) { return one.threads.size() == 2; });
  ASSERT_EQ(::kill(rank.process, SIGSTOP), 0);
  const auto report = look_until(rank, [](const RankReport& one) { return one.state == "T"; });
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_TRUE(report.threads[0].stack.empty());
  EXPECT_EQ(report.threads[1].phase, "read");
}

TEST_F(RankLook, ARankWithWrongBitsHasThemAlsoIfItIsKilledBeforeItEnds) {
  look_until(start("HasWrongBits"),
             [](const RankReport& one) { return !one.threads.empty() && one.threads[0].phase == "corrupted"; });
  ranks_->kill();
  for (const auto end = Deadline::after(20s); ranks_->reap() > 0 && !end.expired();) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(ranks_->code(), 72);
  EXPECT_EQ(ranks_->origin(), (Origin{CauseKind::corrupted, std::nullopt, 4}));
}

TEST_F(RankLook, ARankThatEndsARoundIsKnownUntilItHas) {
  start("EndsARound");
  for (const bool ends : {true, false}) {
    for (const auto end = Deadline::after(20s); ranks_->end_a_round() != ends && !end.expired();)
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(ranks_->end_a_round(), ends);
  }
  EXPECT_EQ(ranks_->reap(), 1u);
}

TEST_F(RankLook, AProgramThatShowsNothingGetsNoSignal) {
  ranks_.emplace(Rank(0), std::vector<Process>{{{"sleep", "60"}, {}}}, BeatLimits{}, Clock::now());
  const auto report = look_at(ranks_->started().at(0), 100ms);
  EXPECT_TRUE(report.threads.empty());
  EXPECT_EQ(ranks_->reap(), 1u);
}

TEST_F(RankLook, ReportsSurviveTheirText) {
  NodeReport report{"n1", 2, "a note", {}, {{"n1", true, 0}, {"n2", false, 2.5}}};
  report.ranks.push_back(look_until(start("WaitsForRank3"),
                                    [](const RankReport& one) { return !one.threads.empty() && one.threads[0].wait; }));
  const auto read = node_report_from(to_text(report));
  ASSERT_TRUE(read);
  EXPECT_EQ(to_text(*read), to_text(report));
  EXPECT_EQ(read->ranks.at(0).threads.at(0).wait->rank, Rank(3));
  EXPECT_FALSE(node_report_from("{}"));
  EXPECT_FALSE(node_report_from("no JSON"));
}

TEST_F(RankLook, AnInspectorAnswersEachQuestionOnce) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("inspector_" + std::to_string(::getpid()));
  const auto question = questions_folder(folder) / "17";
  Inspector inspector(folder);
  inspector.update({.host = "n1", .node = 1, .ranks = {start("HangsInData")}, .nodes = {{"n0", true, 0}}});
  std::filesystem::create_directories(question);
  const auto answers = [&] {
    const std::filesystem::directory_iterator all(question);
    return std::count_if(begin(all), end(all), [](const auto& one) { return one.path().extension() == ".json"; });
  };
  for (const auto end = Deadline::after(20s); answers() == 0 && !end.expired();) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(answers(), 1);
  std::ifstream in(std::filesystem::directory_iterator(question)->path());
  const auto report = node_report_from({std::istreambuf_iterator<char>(in), {}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->host, "n1");
  EXPECT_EQ(report->ranks.at(0).rank, Rank(4));
  std::filesystem::remove_all(folder);
}

TEST_F(RankLook, ARankWithoutProgressIsEndedWithItsPhaseAndStepAsCause) {
  BeatLimits limits{.first = 60s, .between = 60s, .stall = {.least = 500ms, .least_of_saves = 1h}};
  ranks_.emplace(Rank(0), std::vector<Process>{rank_that("HangsInData"), rank_that("WaitsForRank3")}, limits,
                 Clock::now());
  for (const auto end = Deadline::after(20s); !ranks_->failed() && !end.expired();) {
    std::this_thread::sleep_for(10ms);
    ranks_->check(Clock::now(), 0ms);
    ranks_->reap();
  }
  ASSERT_TRUE(ranks_->failed());
  EXPECT_THAT(ranks_->cause(), HasSubstr("rank 0 made no progress for 0."));
  EXPECT_THAT(ranks_->cause(), HasSubstr(" s in data at step 20"));
  EXPECT_EQ(ranks_->code(), 128 + SIGKILL) << "as of a rank that is frozen: others go on without it";
  EXPECT_EQ(ranks_->reap(), 1u) << "the one that waits for another rank lives";
}

TEST_F(RankLook, ARankThatHangsIsEndedSoonAfterARequestToStop) {
  const StallLimits limits{.least = 1h, .least_of_saves = 1h, .after_stop = 100ms};
  ranks_.emplace(Rank(0), std::vector<Process>{rank_that("HangsInData"), rank_that("WaitsForRank3")},
                 BeatLimits{.between = 60s, .stall = limits}, Clock::now());
  look_until(ranks_->started().at(0), [](const RankReport& one) { return one.threads.size() == 2; });
  ranks_->check(Clock::now(), 0ms);
  ranks_->stop(0, Clock::now());  // without a signal, which would end this program
  for (const auto end = Deadline::after(20s); !ranks_->failed() && !end.expired();) {
    std::this_thread::sleep_for(10ms);
    ranks_->check(Clock::now(), 0ms);
    ranks_->reap();
  }
  ASSERT_TRUE(ranks_->failed());
  EXPECT_THAT(ranks_->cause(), ::testing::MatchesRegex("rank 0 made no progress for .* in (data|read).*"));
  EXPECT_EQ(ranks_->origin().kind, CauseKind::no_progress);
  EXPECT_EQ(ranks_->reap(), 1u) << "the one that waits for another rank lives";
}

TEST_F(RankLook, TheFileThatAThreadReadsIsSeenByItsEnd) {
  const auto& rank = start("HangsInData");
  std::vector<ThreadSeen> threads;
  look_until(rank, [&](const RankReport&) {
    return (threads = rank.activity->look()).size() == 2 && !threads[1].file.empty();
  });
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_THAT(threads[1].file, ::testing::EndsWith("aaa/train.h5"));
  EXPECT_LE(threads[1].file.size(), 127u);
  EXPECT_EQ(threads[0].file, "");
}
}  // namespace
}  // namespace distdl::agent
