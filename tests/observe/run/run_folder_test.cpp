// SPDX-License-Identifier: Apache-2.0
// What a run's folder tells of the run.
#include <numeric>
#include <tuple>

#include <gmock/gmock.h>

#include "tests/observe/run/run_folder_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/records/kinds.hpp>

namespace distdl::observe {
namespace {
using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(Folder, TellsWhereItsStartsBegan) {
  EXPECT_TRUE(read_starts(folder_).empty());
  run(0, 30);
  run(20, 40);
  EXPECT_EQ(read_starts(folder_), (std::vector<Step>{Step(0), Step(20)}));
}

TEST_F(Folder, RecordsStepsEvaluationsAndTheResult) {
  run(0, 100, records::Evaluated{Step(100), 10, 0.25, 0.96875, 50}, kFinished);
  EXPECT_EQ(lines("metrics.jsonl").size(), 101u);
  auto first = json::parse(lines("metrics.jsonl").front());
  EXPECT_GT(first["time"], 1e9);
  first.erase("time");
  EXPECT_EQ(first, (json{{"start", 1},
                         {"version", records::kRecordVersion},
                         {"step", 1},
                         {"epoch", 0.1},
                         {"loss", 1.0},
                         {"accuracy", 0.5},
                         {"learning_rate", 0.01},
                         {"samples_per_s", 101.0}}));
  EXPECT_EQ(last_line("metrics.jsonl")["validation_accuracy"], 0.96875);
  EXPECT_EQ(last_line("journal.jsonl")["event"], "finished");
  auto result = read_result(folder_);
  EXPECT_EQ(result.steps, 100);
  EXPECT_EQ(result.loss, 0.25);
  EXPECT_EQ(result.accuracy, 0.96875);
  EXPECT_EQ(result.samples_per_s, 150.5);
  EXPECT_EQ(result.status, ResultStatus::finished);
  EXPECT_EQ(result.start, 1);
  EXPECT_EQ(result.interruptions, 0);
  EXPECT_EQ(result.steps_repeated, 0);
  EXPECT_EQ(result.ranks, 2);
  EXPECT_EQ(result.backend, "reference");
}

TEST_F(Folder, RecordsWhatOfTheSumsWasNotHidden) {
  RunFolder records(folder_, 0);
  records::StepDone step{Step(1)};
  step.sum_seconds = 0.5;
  step.sum_waited_seconds = 0.125;
  step.pipeline_waited_seconds = 0.0625;
  step.pipeline_busiest_seconds = 0.75;
  records.on(step);
  EXPECT_EQ(last_line("metrics.jsonl")["sum_seconds"], 0.5);
  EXPECT_EQ(last_line("metrics.jsonl")["sum_waited_seconds"], 0.125);
  EXPECT_EQ(last_line("metrics.jsonl")["pipeline_waited_seconds"], 0.0625);
  EXPECT_EQ(last_line("metrics.jsonl")["pipeline_busiest_seconds"], 0.75);
}

TEST_F(Folder, TellsAuditsAndWhoIsCorrupt) {
  records::Corrupted corrupted{Step(20), Step(10), {1, 3}, {"n1", "n2"}, false, "why", {Step(15), Step(20)}};
  run(0, 20, records::Audited{Step(10), 0.5}, corrupted);
  auto audited = json::parse(lines("journal.jsonl").at(lines("journal.jsonl").size() - 2));
  EXPECT_EQ(audited["event"], "audited");
  EXPECT_EQ(audited["step"], 10);
  auto row = last_line("journal.jsonl");
  row.erase("time");
  EXPECT_EQ(row, (json{{"event", "corrupted"},
                       {"start", 1},
                       {"step", 20},
                       {"audited", 10},
                       {"nodes", "n1,n2"},
                       {"wrong_ranks", {1, 3}},
                       {"certain", false},
                       {"reason", "why"},
                       {"set_aside", {15, 20}}}));
  corrupted.audited.reset();
  run(0, 20, corrupted);
  EXPECT_TRUE(last_line("journal.jsonl")["audited"].is_null());
  EXPECT_TRUE(read_bad_nodes(folder_).empty()) << "it may be either of them";
  corrupted.is_certain = true;
  run(0, 20, corrupted);
  ASSERT_EQ(read_bad_nodes(folder_).size(), 2U);
  EXPECT_EQ(read_bad_nodes(folder_)[0].cause, "silent corruption: why");
}

TEST_F(Folder, ReadsTheLossOfTheNextStepBackBitByBit) {
  EXPECT_FALSE(read_loss_after(folder_, Step(0)));
  run(0, 30);
  EXPECT_EQ(read_loss_after(folder_, Step(9)), 1.0 / 10);
  EXPECT_EQ(read_loss_after(folder_, Step(28)), 1.0 / 29);
  EXPECT_FALSE(read_loss_after(folder_, Step(30))) << "it got no further";
  run(20, 25);
  EXPECT_EQ(read_loss_after(folder_, Step(20)), 1.0 / 21);
  EXPECT_EQ(read_loss_after(folder_, Step(24)), 1.0 / 25);
  EXPECT_FALSE(read_loss_after(folder_, Step(25))) << "this state was made again, and step 26 was not";
  EXPECT_FALSE(read_loss_after(folder_, Step(40)));
}

TEST_F(Folder, LossesAfterTheLastAuditBeforeCorruptionDoNotCount) {
  run(0, 30, records::Corrupted{Step(30), Step(20), {1}, {"n1"}, true, "why", {}});
  EXPECT_EQ(read_loss_after(folder_, Step(18)), 1.0 / 19);
  EXPECT_FALSE(read_loss_after(folder_, Step(20)));
  EXPECT_FALSE(read_loss_after(folder_, Step(25)));
  run(20, 24);
  EXPECT_FALSE(read_loss_after(folder_, Step(20))) << "the start after it may have had another job, or other nodes";
  EXPECT_EQ(read_loss_after(folder_, Step(22)), 1.0 / 23) << "by the start after it";
}

TEST_F(Folder, LossesOfRanksWithDifferentBackendsDoNotCount) {
  run(0, 20);
  has_mixed_backends_ = true;
  run(10, 30);
  has_mixed_backends_ = false;
  run(25, 40);
  EXPECT_EQ(read_loss_after(folder_, Step(5)), 1.0 / 6);
  EXPECT_FALSE(read_loss_after(folder_, Step(15)));
  EXPECT_FALSE(read_loss_after(folder_, Step(25)));
  EXPECT_EQ(read_loss_after(folder_, Step(30)), 1.0 / 31);
}

TEST_F(Folder, TellsTheDeadlineAndReadsItsTimesBack) {
  EXPECT_EQ(read_measured_times(folder_).save, 0);
  records::DeadlineKnown deadline{.end = 1900000000.0, .last_safe = 1899999900.0, .needed = 100, .margin = 15};
  deadline.times = {1.5, 30, 20, 2};
  deadline.preemption = "REQUEUE";
  deadline.grace_seconds = 30;
  deadline.grace_is_enough = false;
  deadline.reason = "stops 100 s before the end of the job";
  run(0, 10, records::DeadlineKnown{.grace_seconds = 30.0}, deadline, records::Stopped{Step(10), "SIGTERM"});
  json row;
  for (const auto& line : lines("journal.jsonl"))
    if (const auto each = json::parse(line); each["event"] == "deadline") row = each;
  EXPECT_EQ(row["end"], 1900000000.0);
  EXPECT_EQ(row["last_safe"], 1899999900.0);
  EXPECT_EQ(row["needed_seconds"], 100.0);
  EXPECT_EQ(row["preemption"], "REQUEUE");
  EXPECT_EQ(row["grace_is_enough"], false);
  EXPECT_EQ(row["reason"], "stops 100 s before the end of the job");
  const auto times = read_measured_times(folder_);
  EXPECT_EQ(std::tuple(times.step, times.evaluation, times.save, times.snapshot), std::tuple(1.5, 30.0, 20.0, 2.0));
}

TEST_F(Folder, WithoutAnEvaluationTheResultHasNone) {
  run(0, 100, records::Finished{Step(100), {}, {}});
  const auto text = lines("result.json");
  EXPECT_THAT(std::accumulate(text.begin(), text.end(), std::string()),
              ::testing::AllOf(HasSubstr("\"accuracy\": null"), HasSubstr("\"loss\": null")));
  EXPECT_FALSE(read_result(folder_).accuracy);
  EXPECT_FALSE(read_result(folder_).loss);
}

TEST_F(Folder, CountsEachInterruptionAndTheStepsItCost) {
  run(0, 60);                                          // killed; the last checkpoint is of step 40
  run(40, 45);                                         // killed again: 20 steps were to be done again, 5 of them were
  run(42, 70, records::Stopped{Step(70), "SIGTERM"});  // 3 more
  run(70, 100, kFinished);
  auto result = read_result(folder_);
  EXPECT_EQ(result.interruptions, 3);
  EXPECT_EQ(result.steps_repeated, 20 + 3);
}

TEST_F(Folder, CountsFailedSavesOfAllStarts) {
  run(0, 60, records::SaveFailed{Step(50), "disk full"}, records::SaveFailed{Step(60), "disk full"});
  run(40, 100, records::SaveFailed{Step(80), "disk full"}, kFinished);
  EXPECT_EQ(read_result(folder_).failed_saves, 3);
}

TEST_F(Folder, ARunKilledBeforeItsFirstCheckpointRepeatsAll) {
  run(0, 7);
  run(0, 100, kFinished);
  EXPECT_EQ(read_result(folder_).interruptions, 1);
  EXPECT_EQ(read_result(folder_).steps_repeated, 7);
}

TEST_F(Folder, StartingAFinishedRunAgainIsNoInterruption) {
  run(0, 100, kFinished);
  run(100, 100, kFinished);
  EXPECT_EQ(read_result(folder_).interruptions, 0);
  EXPECT_EQ(read_result(folder_).steps_repeated, 0);
}

TEST_F(Folder, RowsTellTheirStart) {
  run(0, 30);
  run(20, 40, records::CheckpointSaved{Step(40), 1, 1, 1}, kFinished);
  int again = 0;
  for (const auto& line : lines("metrics.jsonl")) again += json::parse(line)["start"] == 2;
  EXPECT_EQ(again, 20);
  for (const auto& line : lines("journal.jsonl")) {
    const auto row = json::parse(line);
    EXPECT_TRUE(row["event"] != "checkpoint" || row["start"] == 2);
    if (row["event"] != "started") continue;
    EXPECT_EQ(row["version"], records::kRecordVersion);
    EXPECT_EQ(row["restart"].get<int>() + 1, row["start"].get<int>());
  }
}

TEST_F(Folder, TheResultTellsTheSpeedOfTheLastStartApart) {
  run(0, 20);
  run(10, 12, kFinished);
  const auto result = read_result(folder_);
  EXPECT_EQ(result.samples_per_s_of_start, (111.0 + 112.0) / 2);
  EXPECT_EQ(result.samples_per_s, 111);
  EXPECT_EQ(result.start, 2);
  run(12, 12, kFinished);
  EXPECT_FALSE(read_result(folder_).samples_per_s_of_start) << "it did no step";
}

TEST_F(Folder, TheMeanSpeedCountsASlowPhaseByItsTime) {
  RunFolder records(folder_, 0);
  records.on(started(0));
  std::int64_t step = 0;
  for (const double speed : {100.0, 100.0, 10.0, 100.0})
    records.on(records::StepDone{Step(++step), 0.1, 1.0, 0.5, 0.01, speed});
  records.on(kFinished);
  const auto result = read_result(folder_);
  EXPECT_EQ(result.samples_per_s, 100) << "the median";
  ASSERT_TRUE(result.samples_per_s_mean);
  EXPECT_NEAR(*result.samples_per_s_mean, 4 / (3.0 / 100 + 1.0 / 10), 1e-9);
}

TEST(Result, ThatIsEmptyOrNoJsonIsNamedWithWhatToDo) {
  for (const auto& [text, about] :
       {std::pair("", "it is empty"), std::pair(" \n", "it is empty"),
        std::pair("{\"steps\":", "it is no JSON from byte"), std::pair("[1]", "a value is of another type"),
        std::pair("{\"steps\":-0.5}", "a whole number was expected")}) {
    try {
      result_from(text, "run/result.json");
      ADD_FAILURE() << text;
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::corrupt);
      EXPECT_THAT(error.what(), HasSubstr(std::string("\"run/result.json\" is damaged: ") + about));
      EXPECT_THAT(error.what(), HasSubstr("run the same job again, or remove the file"));
      EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("json.exception")));
    }
  }
}

TEST_F(Folder, AStopHasAResultUntilTheNextStart) {
  run(0, 20, records::Evaluated{Step(20), 2, 0.5, 0.75, 50}, records::Stopped{Step(20), "signal SIGTERM"});
  auto result = read_result(folder_);
  EXPECT_EQ(result.status, ResultStatus::stopped);
  EXPECT_EQ(std::tie(result.cause, result.cause_code), std::make_tuple("signal SIGTERM", "stop_signal"));
  EXPECT_EQ(std::tie(result.steps, result.loss, result.accuracy), std::make_tuple(20, 0.5, 0.75));
  EXPECT_EQ(last_line("journal.jsonl")["cause_code"], "stop_signal");
  run(20, 30);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "result.json"));
  run(20, 100, kFinished);
  run(100, 100);
  EXPECT_EQ(read_result(folder_).status, ResultStatus::finished) << "it stays until there is another one";
}

TEST_F(Folder, AnErrorOfRankZeroIsTold) {
  RunFolder records(folder_, 0);
  records.failed(ConfigError("the data set has no labels"));
  EXPECT_EQ(last_line("journal.jsonl")["cause_code"], "input");
  records.on(records::StepDone{Step(3)});
  records.failed(ConfigError("the loss became nan"));
  EXPECT_EQ(last_line("journal.jsonl")["cause_code"], "diverged");
  EXPECT_EQ(last_line("journal.jsonl")["step"], 3);
  EXPECT_EQ(last_failure(read_journal(folder_))->cause, "the data set has no labels") << "the first tells most";
}

TEST_F(Folder, RunsOfVersion1GoOn) {
  std::filesystem::create_directories(folder_);
  append("metrics.jsonl",
         "{\"step\":1,\"loss\":0.5,\"samples_per_s\":10}\n{\"step\":2,\"loss\":0.25,\"samples_per_s\":20}\n");
  append("journal.jsonl", "{\"event\":\"started\",\"time\":1000,\"ranks\":2}\n");
  append("result.json", R"({"steps":2,"loss":null,"accuracy":0.5,"samples_per_s":15,"ranks":2,"backend":"b"})");
  EXPECT_EQ(read_result(folder_).status, ResultStatus::finished);
  EXPECT_EQ(collect_result(folder_).samples_per_s, 15);
  EXPECT_FALSE(collect_result(folder_).samples_per_s_of_start);
  EXPECT_EQ(read_loss_after(folder_, Step(1)), 0.25);
  run(1, 100, kFinished);
  EXPECT_EQ(read_result(folder_).interruptions, 1);
  EXPECT_EQ(read_result(folder_).steps_repeated, 1);
}

TEST_F(Folder, FailuresAreStartsThatNeitherStoppedNorFinished) {
  EXPECT_EQ(read_failures(folder_).failures, 0);
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "journal.jsonl") << R"({"event":"started","time":1000}
{"event":"checkpoint","time":1100,"step":1}
{"event":"started","time":2000}
{"event":"checkpoint","time":2300,"step":2}
{"event":"stopped","time":2310,"step":2}
{"event":"started","time":5000}
{"event":"save_failed","time":5050,"step":3}
{"torn)";
  auto record = read_failures(folder_);
  EXPECT_EQ(record.failures, 2);  // the first, and the one that goes on now
  EXPECT_DOUBLE_EQ(record.seconds, 100 + 310 + 50);
}
}  // namespace
}  // namespace distdl::observe
