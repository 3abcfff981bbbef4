// SPDX-License-Identifier: Apache-2.0
// The files in a run's folder: torn, long, odd, in the way, on a disk that refuses.
#include <algorithm>
#include <cerrno>
#include <limits>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/observe/run/run_folder_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/records/kinds.hpp>

namespace {
/// Files and folders that this thread made durable, in this order. The program has other threads that write.
std::vector<std::filesystem::path>& synced() {
  thread_local std::vector<std::filesystem::path> paths;
  return paths;
}
/// So many of this thread may follow; then the disk refuses.
thread_local int syncs_left = std::numeric_limits<int>::max();
}  // namespace

/// Takes the place of the C library's.
extern "C" int fsync(int descriptor) {
  if (--syncs_left < 0) {
    errno = EIO;
    return -1;
  }
  synced().push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace distdl::observe {
namespace {
using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(Folder, MakesTheResultDurable) {
  synced().clear();
  run(0, 100, kFinished);
  auto folder = std::filesystem::canonical(folder_);
  ASSERT_EQ(synced().size(), 3u);
  EXPECT_EQ(synced()[0], folder.parent_path()) << "for the run folder, which is new";
  EXPECT_THAT(synced()[1].string(), ::testing::StartsWith((folder / ".result.json.").string()));
  EXPECT_EQ(synced()[2], folder);
  EXPECT_FALSE(std::filesystem::exists(synced()[1]));
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

TEST_F(Folder, MetricsStayBelowTheLimit) {
  constexpr std::int64_t kSteps = 12000;
  constexpr std::uint64_t kLimit = 1 << 20;
  RunFolder records(folder_, 0, Options{.records_mib = 1});
  auto start = started(0);
  start.start = 1;
  records.on(start);
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    records.on(records::StepDone{Step(step), 0.5, 1.0 / static_cast<double>(step), 0.5, 0.01, 1000, 0.125});
    if (step % 1000 == 0) records.on(records::Evaluated{Step(step), 0.5, 0.5, 0.5, 50});
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
  EXPECT_EQ(json::parse(lines("metrics.jsonl").front())["version"], records::kRecordVersion);
  EXPECT_EQ(read_loss_after(folder_, Step(kSteps - 1)), 1.0 / kSteps);
}

TEST_F(Folder, RowsFollowWhereTheDiskRefusesASecondThinning) {
  constexpr std::int64_t kLong = 4 << 20;
  std::filesystem::create_directories(folder_);
  std::string rows;
  for (std::int64_t step = 1; std::ssize(rows) < kLong; ++step)
    rows += fmt::format("{{\"step\":{},\"loss\":1}}\n", step);
  append("metrics.jsonl", rows);
  {
    RunFolder records(folder_, 0, Options{.records_mib = 1});
    syncs_left = 1;
    for (std::int64_t step = 1; step <= 2; ++step) records.on(records::StepDone{Step(step)});
  }
  EXPECT_LT(syncs_left, 0);
  syncs_left = std::numeric_limits<int>::max();
  EXPECT_LT(std::filesystem::file_size(folder_ / "metrics.jsonl"), kLong);
  EXPECT_EQ(last_line("metrics.jsonl")["step"], 2);
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_FALSE(entry.path().filename().string().starts_with('.')) << "left behind: " << entry.path();
}

TEST_F(Folder, StepsOfARoundAreWrittenTogetherAtItsEnd) {
  RunFolder records(folder_, 0);
  records.on(started(0));
  records::StepDone step{Step(0)};
  for (const bool is_followed : {true, true, false, true, false}) {
    step.is_followed = is_followed;
    ++step.step.value;
    records.on(step);
    const std::size_t written = step.step.value < 3 ? 0 : step.step.value < 5 ? 3 : 5;
    ASSERT_EQ(lines("metrics.jsonl").size(), written) << step.step.value;
  }
  EXPECT_EQ(last_line("metrics.jsonl")["step"], 5);
}

TEST_F(Folder, RowsOfShortStepsAreThereBeforeASaveAndAtTheEnd) {
  {
    RunFolder records(folder_, 0);
    records.on(started(0));
    for (std::int64_t step = 1; step <= 20; ++step) records.on(records::StepDone{Step(step)});
    records.save_begins();
    EXPECT_EQ(lines("metrics.jsonl").size(), 20) << "a run that goes on from this step does none of them again";
    for (std::int64_t step = 21; step <= 40; ++step) records.on(records::StepDone{Step(step)});
  }
  EXPECT_EQ(lines("metrics.jsonl").size(), 40);
  EXPECT_EQ(last_line("metrics.jsonl")["step"], 40);
}

TEST_F(Folder, ALongJournalGetsFewerOfItsFrequentRows) {
  std::filesystem::create_directories(folder_);
  append("journal.jsonl", std::string(2 << 20, '\n'));
  RunFolder records(folder_, 0, Options{.records_mib = 1});
  for (std::int64_t step = 1; step <= 50; ++step) records.on(records::SnapshotKept{Step(step), 1, 0});
  records.on(records::CheckpointSaved{Step(50), 1, 1, 1});
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
  run(2, 100, records::SaveFailed{Step(50), "\xff"}, kFinished);
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
