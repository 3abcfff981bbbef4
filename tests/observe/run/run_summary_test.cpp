// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/records/row_of.hpp"
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;

using nlohmann::json;
using records::Row;

Row event(const char* name, double time, json fields = json::object()) {
  return records::row_of(name, time, std::move(fields));
}
Row of_job(const char* name, double time, const char* job, json fields = json::object()) {
  fields["job"] = job;
  return event(name, time, std::move(fields));
}
Row started(double time, std::int64_t from, bool interrupted, json fields = json::object()) {
  fields.update({{"resumed_from", from},
                 {"interrupted", interrupted},
                 {"total_steps", 100},
                 {"ranks", 4},
                 {"steps_repeated", interrupted ? 3 : 0}});
  return event("started", time, std::move(fields));
}
Row step(std::int64_t number, double time, json fields = json::object()) {
  fields.update({{"step", number}, {"loss", 1.0 / static_cast<double>(number)}});
  return event("", time, std::move(fields));
}

TEST(Summary, FollowsARunThroughItsPhases) {
  std::vector<Row> journal;
  const auto phase = [&] { return std::string(name_of(summarize(journal, {}).phase)); };
  EXPECT_EQ(phase(), "unknown");
  const auto expect_after = [&](Row row, const char* expected) {
    journal.push_back(std::move(row));
    EXPECT_EQ(phase(), expected) << name_of(journal.back().record);
  };
  expect_after(of_job("submitted", 1, "7"), "queued");
  expect_after(of_job("job_started", 2, "7"), "starting");
  expect_after(event("launch", 3), "starting");
  expect_after(started(4, 0, false), "training");
  expect_after(event("checkpoint", 5), "training");
  expect_after(event("launch_ended", 6, {{"code", 69}}), "recovering");
  expect_after(event("launch", 7), "starting");
  expect_after(started(8, 10, true), "training");
  expect_after(event("stopped", 9), "stopping");
  expect_after(event("launch_ended", 10, {{"code", 75}}), "stopping");
  expect_after(of_job("requeued", 11, "7"), "queued");
  expect_after(of_job("job_ended", 12, "7", {{"code", 75}}), "queued");
  expect_after(of_job("job_started", 13, "7"), "starting");
  expect_after(started(14, 10, true), "training");
  expect_after(event("finished", 15), "stopping");
  expect_after(of_job("job_ended", 16, "7", {{"code", 0}, {"final", true}}), "finished");
  expect_after(of_job("submitted", 17, "8"), "queued");
  expect_after(of_job("job_ended", 18, "8", {{"code", 76}, {"final", true}}), "ended");
}

TEST(Summary, HasWhatTheRanksOfTheLastStartChose) {
  const Row product = event("product", 2, {{"reason", "4x1x1 sharded fits"}});
  std::vector<Row> journal{event("launch", 1), product, started(3, 0, false)};
  EXPECT_EQ(summarize(journal, {}).product, "4x1x1 sharded fits");
  const auto roles = [](int server) {
    return json{{"reason", "roles"}, {"servers", {server}}, {"workers", {0}}, {"hosts", {"a", "b"}}};
  };
  journal.push_back(event("product", 3, roles(1)));
  EXPECT_THAT(summarize(journal, {}).cluster.servers, ElementsAre(Rank(1)));
  EXPECT_THAT(summarize(journal, {}).cluster.hosts, ElementsAre("a", "b"));
  journal.push_back(event("product", 3, roles(2)));
  EXPECT_TRUE(summarize(journal, {}).cluster.servers.empty()) << "there is no such rank";
  journal.push_back(event("generation", 4));
  EXPECT_EQ(summarize(journal, {}).product, "") << "which may choose something else, or have a strategy";
}

TEST(Summary, OfAnEndWithWorkLeftDependsOnWhoWaits) {
  std::vector<Row> journal{of_job("submitted", 1, "7"), of_job("job_started", 2, "7"),
                           of_job("job_ended", 3, "7", {{"code", 75}})};
  EXPECT_EQ(summarize(journal, {}).phase, Phase::stopped);
  journal.insert(journal.begin() + 1, of_job("submitted", 1, "8"));
  EXPECT_EQ(summarize(journal, {}).phase, Phase::queued);
  EXPECT_THAT(summarize(journal, {}).waiting, ElementsAre("8"));
  EXPECT_THAT(summarize(journal, {}).jobs, ElementsAre("7", "8"));
  journal.back() = of_job("job_ended", 3, "7", {{"code", 70}});
  journal.erase(journal.begin() + 1);
  EXPECT_EQ(summarize(journal, {}).phase, Phase::ended);
}

/// It said "signal SIGUSR1", which a user who had typed "distdl requeue" never sent.
TEST(Summary, NamesTheCommandThatAskedForAStop) {
  const Row stopped = event("stopped", 3, {{"reason", "signal SIGUSR1"}, {"cause_code", "stop_signal"}});
  std::vector<Row> journal{started(1, 0, false),
                           event("requeue_requested", 2, {{"reason", "distdl requeue"}}),
                           stopped,
                           started(4, 5, true),
                           stopped,
                           started(6, 5, true)};
  std::vector<std::string> causes;
  for (const auto& restart : summarize(journal, {}).restarts) causes.push_back(restart.cause);
  EXPECT_THAT(causes, ElementsAre("distdl requeue", "signal SIGUSR1"));
}

TEST(Summary, NamesTheCausesOfRestarts) {
  std::vector<Row> journal{started(1, 0, false)};
  const auto fail = [&](const char* cause) {
    journal.push_back(event("launch_ended", 2, {{"code", 69}, {"cause", cause}}));
  };
  fail("peer lost");
  journal.push_back(started(3, 5, true));
  fail("peer lost");
  journal.push_back(event("node_lost", 4));
  journal.push_back(started(5, 5, true));
  journal.push_back(event("stopped", 6, {{"reason", "signal SIGUSR1"}}));
  journal.push_back(of_job("job_started", 7, "9"));
  journal.push_back(started(8, 6, true));
  journal.push_back(of_job("job_started", 9, "9"));
  journal.push_back(started(10, 6, true));
  journal.push_back(started(11, 6, true));
  std::vector<std::string> causes;
  for (const auto& restart : summarize(journal, {}).restarts) causes.push_back(restart.cause);
  EXPECT_THAT(causes,
              ElementsAre("peer lost", "node lost", "signal SIGUSR1", "the job ended without a word", "unknown"));
  std::vector<std::string> codes;
  for (const auto& restart : summarize(journal, {}).restarts) codes.push_back(restart.cause_code);
  EXPECT_THAT(codes, ElementsAre("peer_lost", "node_lost", "stop_signal", "job_lost", "unknown"))
      << "rows of version 1 have none";
  EXPECT_EQ(summarize(journal, {}).restarts[0].resumed_from, Step(5));
  EXPECT_EQ(summarize(journal, {}).restarts[0].repeated, 3);
}

TEST(Summary, TellsWhyTheRunFailedUntilItGoesOn) {
  const Row failed = event("failed", 3, {{"code", 78}, {"cause", "the loss became nan"}, {"cause_code", "diverged"}});
  std::vector<Row> journal{of_job("job_started", 1, "7"), started(2, 0, false), failed,
                           of_job("job_ended", 4, "7", {{"code", 78}, {"final", true}})};
  journal[1].start = 3;
  EXPECT_EQ(summarize(journal, {}).failure, "the loss became nan");
  EXPECT_EQ(summarize(journal, {}).failure_code, "diverged");
  EXPECT_EQ(summarize(journal, {}).start, 3);
  journal.push_back(of_job("job_started", 5, "8"));
  EXPECT_EQ(summarize(journal, {}).failure, "");
}

TEST(Summary, OfAJobThatWasRefusedIsThatOfTheJobBefore) {
  const Row refused = of_job("job_ended", 14, "8", {{"code", 4}, {"final", true}, {"refused", true}});
  const Row gave_up = event("failed", 13, {{"cause", "another model"}});
  std::vector<Row> journal{of_job("job_started", 1, "7"),
                           started(2, 0, false),
                           of_job("job_ended", 3, "7", {{"code", 0}, {"final", true}}),
                           of_job("submitted", 10, "8"),
                           of_job("job_started", 11, "8"),
                           gave_up,
                           refused};
  const auto summary = summarize(journal, {});
  EXPECT_EQ(summary.phase, Phase::finished);
  EXPECT_EQ(summary.job, "7");
  EXPECT_EQ(summary.code, 0);
  EXPECT_EQ(summary.failure, "");
  EXPECT_THAT(summary.jobs, ElementsAre("7", "8"));
  EXPECT_EQ(summary.last_time, 14);
  journal.insert(journal.begin() + 5, started(12, 0, true));
  EXPECT_EQ(summarize(journal, {}).phase, Phase::ended) << "a rank has trained";
}

TEST(Summary, AJobThatWasRefusedHidesNeitherALostJobNorARequeuedOneNorTheirCauses) {
  const Row refused = of_job("job_ended", 21, "8", {{"code", 78}, {"final", true}, {"refused", true}});
  const Row gave_up = event("failed", 20, {{"cause", "no memory"}});
  const std::vector<Row> next{of_job("job_started", 19, "8"), gave_up, refused};
  const auto with = [](std::vector<Row> journal, const std::vector<Row>& more) {
    journal.insert(journal.end(), more.begin(), more.end());
    return journal;
  };
  const std::vector<Row> resumed{of_job("job_started", 30, "9"), started(31, 5, true)};

  const auto lost = with({of_job("job_started", 1, "7"), started(2, 0, false)}, next);
  EXPECT_EQ(summarize(lost, {}).phase, Phase::training) << "whose processes are gone";
  EXPECT_EQ(summarize(lost, {}).failure, "");
  EXPECT_EQ(summarize(with(lost, resumed), {}).restarts.at(0).cause, "the job ended without a word");

  const Row stopped = event("stopped", 3, {{"reason", "signal SIGUSR1"}});
  const auto requeued = with({of_job("job_started", 1, "7"), started(2, 0, false), stopped, of_job("requeued", 4, "7"),
                              of_job("job_ended", 5, "7", {{"code", 75}})},
                             next);
  EXPECT_EQ(summarize(requeued, {}).phase, Phase::stopped) << "nothing is queued any more";
  EXPECT_EQ(summarize(with(requeued, resumed), {}).restarts.at(0).cause, "signal SIGUSR1");
}

TEST(Summary, KnowsRecoveriesWithinALaunch) {
  const std::string cause = "n2: rank 1 was killed by SIGKILL";
  const Row failure = event("failure", 2, {{"cause", cause}, {"kind", "killed"}, {"node", "n2"}, {"rank", 1}});
  const Row generation = event("generation", 3, {{"cause", cause}, {"ranks", 2}});
  std::vector<Row> journal{started(1, 0, false), failure};
  EXPECT_EQ(summarize(journal, {}).phase, Phase::down);
  journal.push_back(generation);
  EXPECT_EQ(summarize(journal, {}).phase, Phase::starting);
  EXPECT_EQ(summarize(journal, {}).ranks, 2);
  journal.push_back(started(4, 5, true));
  const Row stopped = event("stopped", 5, {{"reason", "signal SIGTERM"}});
  const Row grown = event("generation", 6, {{"cause", "more nodes can take part"}});
  for (const auto& row : {stopped, grown, started(7, 9, true)}) journal.push_back(row);
  const auto restarts = summarize(journal, {}).restarts;
  ASSERT_EQ(restarts.size(), 2u);
  EXPECT_EQ(std::tie(restarts[0].cause, restarts[0].kind, restarts[0].node, restarts[0].rank, restarts[0].found),
            std::make_tuple(cause, "killed", "n2", std::optional<std::int64_t>(1), 2.0));
  EXPECT_EQ(restarts[1].cause, "more nodes can take part");
  EXPECT_EQ(restarts[1].kind, "");
}

TEST(Summary, KnowsHowFarTheRunIs) {
  const Row saved = event("checkpoint", 30, {{"step", 20}, {"seconds", 1.5}});
  const Row deadline = event("deadline", 31, {{"end", 500}, {"reason", "saves begin at 400"}});
  const std::vector<Row> journal{started(10, 0, false), saved, deadline};
  const auto summary = summarize(journal, {step(2, 11), step(21, 41), step(22, 42), step(25, 45)});
  EXPECT_EQ(summary.step, Step(25));
  EXPECT_EQ(summary.total, Step(100));
  EXPECT_EQ(summary.ranks, 4);
  EXPECT_DOUBLE_EQ(*summary.loss, 1.0 / 25);
  EXPECT_DOUBLE_EQ(summary.steps_per_second, 23.0 / 34);
  EXPECT_EQ(summary.checkpoint->step, Step(20));
  EXPECT_FALSE(summary.snapshot);
  EXPECT_EQ(summary.job_end, 500);
  EXPECT_EQ(summary.deadline, "saves begin at 400");
  EXPECT_EQ(summary.last_time, 45);
}

TEST(Summary, MeasuresTheSpeedOfTheNewestStartAlone) {
  const auto summary = summarize({started(1, 0, false)}, {step(50, 11), step(51, 12), step(10, 100), step(12, 101)});
  EXPECT_DOUBLE_EQ(summary.steps_per_second, 2);
}

TEST(Summary, HasTheNewestEvaluation) {
  const auto evaluation = [](std::int64_t step, double time) {
    return event("", time, {{"step", step}, {"validation_loss", 1.0 / time}, {"validation_accuracy", 0.5}});
  };
  const Row first = evaluation(20, 12), second = evaluation(40, 22);
  EXPECT_FALSE(summarize({started(1, 0, false)}, {step(20, 11)}).evaluation);
  const auto summary = summarize({started(1, 0, false)}, {step(20, 11), first, second, step(41, 23)});
  ASSERT_TRUE(summary.evaluation);
  EXPECT_EQ(summary.evaluation->step, Step(40));
  EXPECT_DOUBLE_EQ(summary.evaluation->loss, 1.0 / 22);
  EXPECT_EQ(summary.evaluation->accuracy, 0.5);
  EXPECT_EQ(summary.step, Step(41));
}

TEST(Summary, OfA01JournalIsThatOfItsLastRow) {
  const Row finished = event("finished", 2, {{"step", 100}});
  EXPECT_EQ(summarize({started(1, 0, false), finished}, {}).phase, Phase::finished);
  EXPECT_EQ(summarize({started(1, 0, false), event("stopped", 2)}, {}).phase, Phase::stopped);
  EXPECT_EQ(summarize({started(1, 0, false), finished}, {}).step, Step(100));
}

TEST(Summary, TellsTheNewestStepOnEachLevel) {
  const auto save = [](const char* name, std::int64_t step, std::vector<std::string> levels) {
    return event(name, static_cast<double>(step), {{"step", step}, {"levels", std::move(levels)}});
  };
  std::vector<Row> journal{started(1, 0, false), save("snapshot", 10, {"memory", "partner"}),
                           save("checkpoint", 15, {"memory"}), save("snapshot", 20, {"memory"})};
  const auto steps = [&journal] {
    std::map<std::string, std::int64_t> all;
    for (const auto& level : summarize(journal, {}).levels) all[level.level] = level.step.value;
    return all;
  };
  using Steps = std::map<std::string, std::int64_t>;
  EXPECT_EQ(steps(), (Steps{{"memory", 20}, {"partner", 10}}));
  journal.push_back(started(30, 10, true));
  EXPECT_EQ(steps(), (Steps{{"partner", 10}})) << "the others are of steps that are done again";
  const auto none_after = [&](const Row& last) {
    auto longer = journal;
    longer.push_back(last);
    const auto summary = summarize(longer, {});
    return summary.levels.empty() && !summary.snapshot;
  };
  EXPECT_TRUE(none_after(event("finished", 40)));
  EXPECT_TRUE(none_after(event("corrupted", 40))) << "they are not trusted";
  EXPECT_FALSE(none_after(started(40, 10, true)));
  const Row from_files = started(40, 10, true, {{"resumed_source", "the file system"}});
  EXPECT_TRUE(none_after(from_files)) << "all are removed, also those of this step";
}

TEST(Summary, TellsWhatTheLastStartComputesAndUses) {
  std::vector<Row> journal{started(1, 0, false)};
  EXPECT_EQ(summarize(journal, {}).compute.model_flops, 0) << "older versions do not tell";
  journal[0] = started(1, 0, false, {{"flops_per_sample", 2e6}, {"peak_flops_per_s", 1e9}});
  journal.push_back(event("resources", 2, {{"step", 1}, {"parameter_bytes", 64}}));
  const std::vector<Row> metrics{step(1, 2, {{"mfu", 0.25}}), step(2, 3, {{"mfu", 0.5}}), step(3, 4, {{"mfu", 0.75}})};
  const auto summary = summarize(journal, metrics);
  EXPECT_EQ(summary.compute.model_flops, 2e6);
  EXPECT_EQ(summary.compute.hardware_flops, 2e6);
  EXPECT_EQ(summary.compute.peak_flops, 1e9);
  EXPECT_EQ(summary.mfu, 0.5);
  EXPECT_FALSE(summary.hfu);
  ASSERT_TRUE(summary.resources);
  EXPECT_EQ(summary.resources->parameters, 64);
  journal.push_back(started(5, 3, true));
  EXPECT_FALSE(summarize(journal, {}).resources) << "of an earlier start";
}

}  // namespace
}  // namespace distdl::observe
