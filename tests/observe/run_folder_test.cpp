// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/bad_nodes.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/records.hpp>
#include <distdl/observe/run_folder.hpp>

namespace {
/// Files and folders that were made durable, in this order.
std::vector<std::filesystem::path>& synced() {
  static std::vector<std::filesystem::path> paths;
  return paths;
}
}  // namespace

/// Takes the place of the C library's.
extern "C" int fsync(int descriptor) {
  synced().push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace distdl::observe {
namespace {
using nlohmann::json;
using ::testing::HasSubstr;

class Folder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("observe_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static train::Started started(std::int64_t from) {
    train::Started event{{}, Step(100), 2, 50, 5, "reference"};
    if (from > 0) event.resumed_from = Step(from);
    return event;
  }
  /// One start of a run of 100 steps that resumes at `from` and dies, or stops, or ends after step `to`.
  template <class... Last>
  void run(std::int64_t from, std::int64_t to, const Last&... last) {
    RunFolder records(folder_, restart_++);
    auto start = started(from);
    start.start = static_cast<std::uint64_t>(restart_);
    start.has_mixed_backends = has_mixed_backends_;
    records.on(start);
    for (std::int64_t step = from + 1; step <= to; ++step)
      records.on(train::StepDone{Step(step), step * 0.1, 1.0 / step, 0.5, 0.01, 100.0 + step});
    (records.on(last), ...);
  }
  std::vector<std::string> lines(const char* name) const {
    std::vector<std::string> all;
    std::ifstream in(folder_ / name);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  json last_line(const char* name) const { return json::parse(lines(name).back()); }
  void append(const char* name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::app) << text; }

  std::filesystem::path folder_;
  int restart_ = 0;
  bool has_mixed_backends_ = false;
};

const train::Finished kFinished{Step(100), 0.25, 0.96875};

TEST_F(Folder, TellsWhereItsStartsBegan) {
  EXPECT_TRUE(read_starts(folder_).empty());
  run(0, 30);
  run(20, 40);
  EXPECT_EQ(read_starts(folder_), (std::vector<Step>{Step(0), Step(20)}));
}

TEST_F(Folder, RecordsStepsEvaluationsAndTheResult) {
  run(0, 100, train::Evaluated{Step(100), 10, 0.25, 0.96875, 50}, kFinished);
  EXPECT_EQ(lines("metrics.jsonl").size(), 101u);
  auto first = json::parse(lines("metrics.jsonl").front());
  EXPECT_GT(first["time"], 1e9);
  first.erase("time");
  EXPECT_EQ(first, (json{{"start", 1},
                         {"version", kRecordVersion},
                         {"step", 1},
                         {"epoch", 0.1},
                         {"loss", 1.0},
                         {"accuracy", 0.5},
                         {"learning_rate", 0.01},
                         {"samples_per_s", 101.0},
                         {"waited_seconds", 0.0}}));
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
  train::StepDone step{Step(1)};
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
  train::Corrupted corrupted{Step(20), Step(10), {1, 3}, {"n1", "n2"}, false, "why", {Step(15), Step(20)}};
  run(0, 20, train::Audited{Step(10), 0.5}, corrupted);
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
  run(0, 30, train::Corrupted{Step(30), Step(20), {1}, {"n1"}, true, "why", {}});
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
  train::DeadlineKnown deadline{.end = 1900000000.0, .last_safe = 1899999900.0, .needed = 100, .margin = 15};
  deadline.times = {1.5, 30, 20, 2};
  deadline.preemption = "REQUEUE";
  deadline.grace_seconds = 30;
  deadline.grace_is_enough = false;
  run(0, 10, train::DeadlineKnown{.grace_seconds = 30.0}, deadline, train::Stopped{Step(10), "SIGTERM"});
  json row;
  for (const auto& line : lines("journal.jsonl"))
    if (const auto each = json::parse(line); each["event"] == "deadline") row = each;
  EXPECT_EQ(row["end"], 1900000000.0);
  EXPECT_EQ(row["last_safe"], 1899999900.0);
  EXPECT_EQ(row["needed_seconds"], 100.0);
  EXPECT_EQ(row["preemption"], "REQUEUE");
  EXPECT_EQ(row["grace_is_enough"], false);
  EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("stops 100 s before the end of the job"));
  const auto times = read_measured_times(folder_);
  EXPECT_EQ(std::tuple(times.step, times.evaluation, times.save, times.snapshot), std::tuple(1.5, 30.0, 20.0, 2.0));
}

TEST_F(Folder, WithoutAnEvaluationTheResultHasNone) {
  run(0, 100, train::Finished{Step(100), {}, {}});
  const auto text = lines("result.json");
  EXPECT_THAT(std::accumulate(text.begin(), text.end(), std::string()),
              ::testing::AllOf(HasSubstr("\"accuracy\": null"), HasSubstr("\"loss\": null")));
  EXPECT_FALSE(read_result(folder_).accuracy);
  EXPECT_FALSE(read_result(folder_).loss);
}

TEST_F(Folder, MakesTheResultDurable) {
  synced().clear();
  run(0, 100, kFinished);
  auto folder = std::filesystem::canonical(folder_);
  ASSERT_EQ(synced().size(), 2u);
  EXPECT_THAT(synced()[0].string(), ::testing::StartsWith((folder / ".result.json.").string()));
  EXPECT_EQ(synced()[1], folder);
  EXPECT_FALSE(std::filesystem::exists(synced()[0]));
}

TEST_F(Folder, CountsEachInterruptionAndTheStepsItCost) {
  run(0, 60);                                        // killed; the last checkpoint is of step 40
  run(40, 45);                                       // killed again: 20 steps were to be done again, 5 of them were
  run(42, 70, train::Stopped{Step(70), "SIGTERM"});  // 3 more
  run(70, 100, kFinished);
  auto result = read_result(folder_);
  EXPECT_EQ(result.interruptions, 3);
  EXPECT_EQ(result.steps_repeated, 20 + 3);
}

TEST_F(Folder, CountsFailedSavesOfAllStarts) {
  run(0, 60, train::SaveFailed{Step(50), "disk full"}, train::SaveFailed{Step(60), "disk full"});
  run(40, 100, train::SaveFailed{Step(80), "disk full"}, kFinished);
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

TEST_F(Folder, ATornLastLineIsRemoved) {
  run(0, 3);
  append("metrics.jsonl", R"({"step":4,"loss":0.)");
  append("journal.jsonl", R"({"event":"finis)");
  run(2, 100, kFinished);
  for (const char* name : {"metrics.jsonl", "journal.jsonl"})
    for (const auto& line : lines(name)) EXPECT_TRUE(json::accept(line)) << name << ": " << line;
  auto metrics = lines("metrics.jsonl");
  ASSERT_EQ(metrics.size(), 3u + 98);
  EXPECT_EQ(json::parse(metrics[3])["step"], 3);
  EXPECT_EQ(read_result(folder_).interruptions, 1);
  EXPECT_EQ(read_result(folder_).steps_repeated, 1);
}

TEST_F(Folder, WhoeverBeginsNoStartCompletesATornLine) {
  std::filesystem::create_directories(folder_);
  append("journal.jsonl", "{\"event\":\"sta");
  RecordWriter(folder_ / "journal.jsonl").append("{}");
  EXPECT_EQ(lines("journal.jsonl"), (std::vector<std::string>{"{\"event\":\"sta", "{}"})) << "another may write it now";
  std::ofstream(folder_ / "journal.jsonl") << "{\"torn";
  RecordWriter(folder_ / "journal.jsonl", TornLine::remove).append("{}");
  EXPECT_EQ(lines("journal.jsonl"), std::vector<std::string>{"{}"});
}

TEST_F(Folder, RowsTellTheirStart) {
  run(0, 30);
  run(20, 40, train::CheckpointSaved{Step(40), 1, 1, 1}, kFinished);
  int again = 0;
  for (const auto& line : lines("metrics.jsonl")) again += json::parse(line)["start"] == 2;
  EXPECT_EQ(again, 20);
  for (const auto& line : lines("journal.jsonl")) {
    const auto row = json::parse(line);
    EXPECT_TRUE(row["event"] != "checkpoint" || row["start"] == 2);
    if (row["event"] != "started") continue;
    EXPECT_EQ(row["version"], kRecordVersion);
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

TEST_F(Folder, AStopHasAResultUntilTheNextStart) {
  run(0, 20, train::Evaluated{Step(20), 2, 0.5, 0.75, 50}, train::Stopped{Step(20), "signal SIGTERM"});
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
  records.failed(ExitCode::config, "the data set has no labels");
  EXPECT_EQ(last_line("journal.jsonl")["cause_code"], "input");
  records.on(train::StepDone{Step(3)});
  records.failed(ExitCode::config, "the loss became nan");
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

TEST_F(Folder, MetricsStayBelowTheLimit) {
  constexpr std::int64_t kSteps = 12000;
  constexpr std::uint64_t kLimit = 1 << 20;
  RunFolder records(folder_, 0, Options{.records_mib = 1});
  auto start = started(0);
  start.start = 1;
  records.on(start);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    records.on(train::StepDone{Step(step), 0.5, 1.0 / static_cast<double>(step), 0.5, 0.01, 1000, 0.125});
    if (step % 1000 == 0) records.on(train::Evaluated{Step(step), 0.5, 0.5, 0.5, 50});
  }
  EXPECT_LE(std::filesystem::file_size(folder_ / "metrics.jsonl"), kLimit + 300);
  std::int64_t last = 0, rows = 0, evaluations = 0;
  for (const auto& line : lines("metrics.jsonl")) {
    const auto row = json::parse(line);
    evaluations += row.contains("validation_loss");
    EXPECT_GE(row["step"], last);
    last = row["step"];
    ++rows;
  }
  EXPECT_EQ(last, kSteps);
  EXPECT_EQ(evaluations, kSteps / 1000);
  EXPECT_GT(rows, 1500);
  EXPECT_EQ(json::parse(lines("metrics.jsonl").front())["version"], kRecordVersion);
  EXPECT_EQ(read_loss_after(folder_, Step(kSteps - 1)), 1.0 / kSteps);
}

TEST_F(Folder, ALongJournalGetsFewerOfItsFrequentRows) {
  std::filesystem::create_directories(folder_);
  append("journal.jsonl", std::string(2 << 20, '\n'));
  RunFolder records(folder_, 0, Options{.records_mib = 1});
  for (std::int64_t step = 1; step <= 50; ++step) records.on(train::SnapshotKept{Step(step), 1, 0});
  records.on(train::CheckpointSaved{Step(50), 1, 1, 1});
  int snapshots = 0;
  for (const auto& line : lines("journal.jsonl")) snapshots += line.find("snapshot") != std::string::npos;
  EXPECT_LT(snapshots, 25);
  EXPECT_GE(snapshots, 1);
  EXPECT_EQ(last_line("journal.jsonl")["event"], "checkpoint");
}

TEST_F(Folder, TellsAMissingResultFromADamagedOne) {
  auto code = [&] {
    try {
      read_result(folder_);
    } catch (const StorageError& error) {
      return error.exit_code();
    }
    return ExitCode::ok;
  };
  run(0, 3);
  EXPECT_EQ(code(), ExitCode::incomplete);
  append("result.json", "{\"steps\":");
  EXPECT_EQ(code(), ExitCode::corrupt);
}

TEST_F(Folder, RefusesAFolderItCannotMake) {
  std::ofstream(folder_.string()) << "a file";
  try {
    RunFolder records(folder_, 0);
    FAIL() << "no error";
  } catch (const StorageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("choose a writable run.dir"));
  }
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

TEST_F(Folder, OddLinesAreLeftOut) {
  run(0, 3);
  const std::string deep(30'000, '['), half(40'000, 'x');
  for (const std::string& odd :
       {std::string("null"), std::string("7"), std::string("[{}]"), std::string("{\"step\":NaN}"), deep,
        std::string("\xff\xfe"), std::string("{\"event\":\"\xff\"}"), std::string("\0\0", 2),
        "{\"event\":\"started\",\"reason\":\"" + half + half + "\"}",
        std::string(
            R"({"step":"4","samples_per_s":null,"event":7,"interrupted":"true","steps_repeated":1e300,"time":[]})"),
        std::string(R"({"step":-4,"samples_per_s":-1,"interrupted":1,"steps_repeated":-5,"time":-1e300})"),
        std::string(R"({"step":4.5,"samples_per_s":"fast","steps_repeated":9223372036854775807,"time":1e400})"),
        std::string(R"({"step":99999999999999999999,"event":["started"],"resumed_from":{}})")}) {
    append("metrics.jsonl", odd + "\n");
    append("journal.jsonl", odd + "\n");
  }
  EXPECT_EQ(read_failures(folder_).failures, 1);
  EXPECT_EQ(read_starts(folder_), std::vector{Step(0)});
  run(2, 100, train::SaveFailed{Step(50), "\xff"}, kFinished);
  EXPECT_EQ(read_result(folder_).interruptions, 1);
  EXPECT_EQ(read_result(folder_).steps_repeated, 1);
  EXPECT_EQ(read_result(folder_).failed_saves, 1);
}

TEST_F(Folder, OfAVeryLongFileItsEndIsRead) {
  run(0, 3);
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << std::string(100, 'x');
  std::filesystem::resize_file(folder_ / "metrics.jsonl", std::uint64_t{1} << 40);  // a hole
  append("metrics.jsonl", "\n{\"step\":9}\n");
  run(4, 100, kFinished);
  EXPECT_EQ(read_result(folder_).steps_repeated, 5);
}

TEST_F(Folder, WhatIsNoRegularFileIsNeitherReadNorWrittenNorWaitedFor) {
  const auto elsewhere = folder_ / "elsewhere";
  for (const char* kind : {"fifo", "zero", "folder", "link"}) {
    SCOPED_TRACE(kind);
    std::filesystem::create_directories(folder_);
    std::ofstream(elsewhere) << "mine";
    for (const char* name : {"metrics.jsonl", "journal.jsonl"}) {
      const auto file = folder_ / name;
      if (kind == std::string("fifo")) {
        ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
      }
      if (kind == std::string("zero")) std::filesystem::create_symlink("/dev/zero", file);
      if (kind == std::string("folder")) std::filesystem::create_directory(file);
      if (kind == std::string("link")) std::filesystem::create_symlink(elsewhere, file);
    }
    ::testing::internal::CaptureStderr();
    run(0, 100, kFinished);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, ::testing::AllOf(HasSubstr("metrics.jsonl\" is a "), HasSubstr("journal.jsonl\" is a ")));
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
    EXPECT_EQ(read_result(folder_).steps, 100);
    EXPECT_TRUE(read_starts(folder_).empty());
    EXPECT_EQ(std::filesystem::file_size(elsewhere), 4u);
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(Folder, AResultThatCannotBeWrittenIsRefusedAtTheStart) {
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(::mkfifo((folder_ / "result.json").c_str(), 0600), 0);
  EXPECT_THROW(RunFolder(folder_, 0), StorageError);
  EXPECT_THROW(read_result(folder_), StorageError);
  std::filesystem::remove(folder_ / "result.json");
  std::ofstream(folder_ / "elsewhere") << "mine";
  for (const char* name : {"result.json", ".result.json.new"})
    std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / name);
  run(0, 100, kFinished);
  EXPECT_EQ(read_result(folder_).steps, 100);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "elsewhere"), 4u);
  std::ofstream(folder_ / "result.json") << R"({"status":"lucky","steps":1})";
  EXPECT_THROW(read_result(folder_), StorageError);
  for (const char* steps : {"\"many\"", "1e300", "1.5", "18446744073709551615"}) {
    std::ofstream(folder_ / "result.json") << "{\"steps\":" << steps << "}";
    EXPECT_THROW(read_result(folder_), StorageError) << steps;
  }
}
}  // namespace
}  // namespace distdl::observe
