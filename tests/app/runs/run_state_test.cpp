// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/watch/status_text.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;
using observe::Phase;
using observe::RunSummary;

std::string word(Phase phase, std::optional<std::chrono::seconds> lock_age, const char* state,
                 bool* is_live = nullptr) {
  RunSummary summary{.phase = phase};
  if (phase == Phase::ended) summary.code = 78;
  const auto job = state ? std::optional(JobState{"7", state, "Resources"}) : std::nullopt;
  const RunState found = state_of(summary, lock_age, job);
  if (is_live) *is_live = found.is_live;
  return found.word;
}

TEST(RunStates, AreThoseOfTheFolderAndOfSlurm) {
  EXPECT_EQ(word(Phase::queued, {}, "PENDING"), "queued");
  EXPECT_EQ(word(Phase::training, 1s, "PENDING"), "queued") << "requeued without a word";
  EXPECT_EQ(word(Phase::training, 1s, "RUNNING"), "training");
  EXPECT_EQ(word(Phase::training, 1s, "SUSPENDED"), "suspended");
  EXPECT_EQ(word(Phase::training, 1s, "NODE_FAIL"), "failed");
  EXPECT_EQ(word(Phase::training, 1s, "TIMEOUT"), "timed out");
  EXPECT_EQ(word(Phase::training, 1s, "COMPLETED"), "lost");
  EXPECT_EQ(word(Phase::stopped, {}, "CANCELLED"), "cancelled");
  EXPECT_EQ(word(Phase::stopped, {}, "FAILED"), "stopped") << "its exit code is 75";
  EXPECT_EQ(word(Phase::finished, {}, "COMPLETED"), "finished");
  EXPECT_EQ(word(Phase::finished, {}, nullptr), "finished");
  EXPECT_EQ(word(Phase::ended, {}, "FAILED"), "failed");
  EXPECT_EQ(word(Phase::unknown, {}, nullptr), "new");
}

TEST(RunStates, WithoutSlurmAreThoseOfALivingProcess) {
  bool is_live = false;
  EXPECT_EQ(word(Phase::training, 1s, nullptr, &is_live), "training");
  EXPECT_TRUE(is_live);
  EXPECT_EQ(word(Phase::training, 61s, nullptr, &is_live), "lost");
  EXPECT_FALSE(is_live);
  EXPECT_EQ(word(Phase::training, {}, nullptr), "lost");
  EXPECT_EQ(word(Phase::queued, {}, nullptr), "lost");
  EXPECT_EQ(word(Phase::stopped, {}, nullptr, &is_live), "stopped");
  EXPECT_FALSE(is_live);
}

TEST(RunStates, OfAChainAreThoseOfTheJobThatWorksElseOfTheOneThatWaits) {
  const RunSummary summary{.waiting = {"8", "9"}, .job = "7"};
  EXPECT_THAT(jobs_of_interest(summary), testing::ElementsAre("7", "8", "9"));
  const auto current = [&](std::vector<JobState> jobs) {
    const auto job = current_job(summary, jobs);
    return job ? job->job : "";
  };
  EXPECT_EQ(current({{"9", "PENDING", ""}, {"8", "PENDING", ""}, {"7", "RUNNING", ""}}), "7");
  EXPECT_EQ(current({{"9", "PENDING", ""}, {"8", "PENDING", ""}, {"7", "NODE_FAIL", ""}}), "8");
  EXPECT_EQ(current({{"9", "CANCELLED", ""}, {"7", "COMPLETED", ""}}), "9") << "the newest of those that are over";
  EXPECT_EQ(current({{"1", "RUNNING", ""}}), "") << "of another run";
  EXPECT_EQ(current({}), "");
}

TEST(JobStates, AreReadFromSqueue) {
  const auto jobs = job_states_in(
      "17|RUNNING|None|2026-03-01T12:00:00|2026-03-01T13:00:00|n[1-3]|17\n"
      "18|PENDING|Resources|N/A|N/A||18\nnonsense\n||\n"
      "20_1|RUNNING|None|N/A|N/A|n1|21\n20_2|RUNNING|None|N/A|N/A|n2|20\n");
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[2].job, "21") << "as the run of this task calls its job";
  EXPECT_EQ(jobs[3].job, "20_2") << "20 would be all of the array";
  EXPECT_EQ(jobs[0].reason, "");
  EXPECT_EQ(jobs[0].nodes, "n[1-3]");
  EXPECT_EQ(*jobs[0].end - *jobs[0].start, 3600);
  EXPECT_EQ(jobs[1].reason, "Resources");
  EXPECT_FALSE(jobs[1].start);
}

TEST(Durations, AreShort) {
  EXPECT_EQ(duration_text(-3), "0 s");
  EXPECT_EQ(duration_text(42.4), "42 s");
  EXPECT_EQ(duration_text(600), "10 min");
  EXPECT_EQ(duration_text(11100), "3 h 5 min");
  EXPECT_EQ(duration_text(187200), "2 d 4 h");
}

std::string text_of(const RunReport& report) {
  return status_text({.report = report}, true);
}

TEST(RunReport, ShowsTheTasksOfAParameterServer) {
  RunReport report{.folder = "run"};
  EXPECT_THAT(text_of(report), testing::Not(testing::HasSubstr("tasks")));
  EXPECT_TRUE(to_json(report)["tasks"].is_null());
  report.summary.cluster = {.servers = {Rank(2)}, .workers = {Rank(0), Rank(1)}, .hosts = {"n1", "n1", "n2"}};
  EXPECT_THAT(text_of(report), testing::HasSubstr("tasks       /job:ps/task:0        rank 2    n2\n"
                                                  "            /job:worker/task:0    rank 0    n1\n"));
  const auto task = to_json(report)["tasks"][2];
  EXPECT_EQ(task["job"], "worker");
  EXPECT_EQ(task["task"], 1);
  EXPECT_EQ(task["rank"], 1);
  EXPECT_EQ(task["node"], "n1");
  report.summary.cluster.workers.assign(20, Rank(0));
  EXPECT_THAT(text_of(report), testing::HasSubstr("and 5 more, see --json"));
}

TEST(RunReport, ShowsTheSlowestNodeFirst) {
  RunReport report{.folder = "run"};
  EXPECT_THAT(text_of(report), testing::Not(testing::HasSubstr("shares")));
  EXPECT_TRUE(to_json(report)["shares"].is_null());
  report.summary.shares = {.time = 5,
                           .moves = 1,
                           .shares = {3, 2, 1, 1, 5},
                           .microbatch_seconds = {0.2, 0.2, 0.8, 0.4, 0.2},
                           .hosts = {"n1", "n1", "n2", "n2", "n3"}};
  EXPECT_THAT(text_of(report),
              testing::HasSubstr("n2 2 microbatches at speed 0.25, n1 5 at 1.00, n3 5 at 1.00; moved 1 time\n"));
  EXPECT_TRUE(to_json(report)["shares"]["went_back"].is_null());
  report.summary.shares.moves = 2;
  report.summary.shares.back = 1;
  report.summary.shares.went_back = "a step took 3 s";
  EXPECT_THAT(text_of(report),
              testing::HasSubstr("; moved 2 times, 1 of them back, the last because a step took 3 s\n"));
  EXPECT_EQ(to_json(report)["shares"]["went_back"], "a step took 3 s");
  const auto rank = to_json(report)["shares"]["ranks"][2];
  EXPECT_EQ(rank["host"], "n2");
  EXPECT_EQ(rank["microbatches"], 1);
  EXPECT_DOUBLE_EQ(rank["speed"], 0.25);
}

TEST(RunReport, ShowsTheRangesOfServers) {
  RunReport report{.folder = "run"};
  EXPECT_TRUE(to_json(report)["ranges"].is_null());
  report.summary.ranges = {
      .moves = 1, .shares = {3000, 1000}, .microbatch_seconds = {1e-9, 4e-9}, .hosts = {"n1", "n2"}};
  EXPECT_THAT(text_of(report), testing::HasSubstr("n2 1000 parameters at speed 0.25, n1 3000 at 1.00; moved 1 time\n"));
  const auto server = to_json(report)["ranges"]["servers"][1];
  EXPECT_EQ(server["server"], 1);
  EXPECT_EQ(server["elements"], 1000);
  EXPECT_DOUBLE_EQ(server["element_seconds"], 4e-9);
}

TEST(RunReport, NamesTheSlowestRankAndHowMuchSlowerItIsThanTheOthers) {
  RunReport report{.folder = "run"};
  EXPECT_TRUE(to_json(report)["slowest_rank"].is_null());
  report.summary.shares = {.shares = {4}, .microbatch_seconds = {0.2}, .hosts = {"n1"}};
  EXPECT_THAT(text_of(report), testing::Not(testing::HasSubstr("slowest"))) << "of one rank none is the slowest";
  report.summary.shares = {.shares = {4, 2}, .microbatch_seconds = {0.25, 0.75}, .hosts = {"n1", "n2"}};
  EXPECT_THAT(text_of(report), testing::HasSubstr("slowest     rank 1 (n2): 0.75 s for a microbatch, 3.00 times"));
  const auto slowest = to_json(report)["slowest_rank"];
  EXPECT_EQ(slowest["rank"], 1);
  EXPECT_EQ(slowest["host"], "n2");
  EXPECT_DOUBLE_EQ(slowest["microbatch_seconds"], 0.75);
  EXPECT_DOUBLE_EQ(slowest["times_slower"], 3);
}

TEST(RunReport, CountsTheMeasurementsOfSuspendedRanks) {
  RunReport report{.folder = "run"};
  EXPECT_THAT(text_of(report), testing::Not(testing::HasSubstr("suspended")));
  EXPECT_TRUE(to_json(report)["suspended_ranks"].empty());
  report.summary.disturbed = {{1, 0, 14}, {"n1", "n1", "n2"}};
  EXPECT_THAT(text_of(report),
              testing::HasSubstr("suspended   measurements left out: 14 of rank 2 (n2), 1 of rank 0 (n1)\n"));
  const auto rows = to_json(report)["suspended_ranks"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["rank"], 2);
  EXPECT_EQ(rows[0]["measurements"], 14);
}

TEST(RunReport, ShowsTheNewestEvaluation) {
  RunReport report{.folder = "run"};
  EXPECT_THAT(text_of(report), testing::Not(testing::HasSubstr("evaluation")));
  EXPECT_TRUE(to_json(report)["evaluation"].is_null());
  report.summary.evaluation = {Step(40), 5, 0.25, 0.9375};
  EXPECT_THAT(text_of(report), testing::HasSubstr("evaluation  step 40, loss 0.2500, accuracy 0.9375, "));
  const auto evaluation = to_json(report)["evaluation"];
  EXPECT_EQ(evaluation["step"], 40);
  EXPECT_DOUBLE_EQ(evaluation["loss"], 0.25);
  EXPECT_DOUBLE_EQ(evaluation["accuracy"], 0.9375);
}
}  // namespace
}  // namespace distdl::app
