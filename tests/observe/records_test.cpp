// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/agent/cause.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/records.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/step_row.hpp>
#include <distdl/records/causes.hpp>

namespace distdl::observe {
namespace {
using nlohmann::json;

class Records : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("rows_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Every event of a rank, with all its optional parts.
  void train() const {
    RunFolder records(folder_, 1);
    train::Started started{Step(2), Step(100), 2, 50, 5, "reference", "the file system", true};
    started.start = 3;
    started.compute = {1e6, 1.25e6, 1e9};
    started.product = "2x1x1 replicas";
    records.on(started);
    train::StepDone step{Step(3), 0.5, 1,   0.5, 0.01, 100,    0.1, 2.5,   1024.0, true,
                         0.1,     0.1, 0.1, 0.1, 0.1,  "int8", 0.5, 0.625, {3, 1}};
    records.on(step);
    records.on(train::ResourcesUsed{Step(3), 1, 2, 3, 4, 5, 6, {{"all_reduce", 7, 800, 0.5}}});
    records.on(train::Evaluated{Step(3), 0.5, 0.25, 0.5, 50, Step(3)});
    records.on(train::CompressionChosen{Step(3), "int8", "why"});
    records.on(train::SharesKnown{Step(3), true, {1, 2}, {0.1, 0.2}, {"n1", "n2"}, 4, false, "why"});
    records.on(train::RangesKnown{Step(3), true, {100, 200}, {1e-9, 2e-9}, {"n1", "n2"}, "why"});
    records.on(train::RanksDisturbed{Step(3), {0, 2}, {"n1", "n2"}});
    records.on(train::CheckpointSaved{Step(3), 1000, 0.5, 0.1, {"memory"}});
    records.on(train::SnapshotKept{Step(3), 0.5, 0.1, {"memory", "partner"}});
    records.on(train::SnapshotFailed{Step(3), "why"});
    records.on(train::SaveSkipped{Step(3), 1});
    records.on(train::SaveFailed{Step(3), "why"});
    records.on(train::Audited{Step(3), 0.5});
    records.on(train::Corrupted{Step(3), Step(2), {1}, {"n1"}, false, "why", {Step(3)}});
    records.on(train::DeadlineKnown{.end = 2e9,
                                    .last_safe = 1.9e9,
                                    .warning = 1.8e9,
                                    .preemption = "REQUEUE",
                                    .grace_seconds = 30,
                                    .grace_is_enough = true});
    records.failed(StorageError("why"));
    records.on(train::Stopped{Step(3), "signal SIGTERM"});
    records.on(train::Finished{Step(3), 0.25, 0.5, "no better evaluations"});
  }
  void launch() const {
    Journal journal(folder_);
    journal.append(Submitted{"7", "chain", 1, 2});
    journal.append(JobStarted{"7", 1, "n1", "chain", 4, 2, 1234.5, "1.0", "kind"});
    journal.append(NodesChecked{2, 1, {"n3"}, "slow", "n4"});
    journal.append(LaunchBegan{4, "n1,n2", "ab12"});
    journal.append(LaunchEnded{137, "killed", true});
    journal.append(GenerationFailed{1, 1e9, "n2: killed", "killed", "n2", 1});
    journal.append(GenerationBegan{2, "n2: killed", 2, "n1"});
    journal.append(ProductChosen{2, "parameter_server", "why", {Rank(0)}, {Rank(1)}, {"n1", "n2"}});
    journal.append(NodeLost{});
    journal.append(NodeAtRisk{"n1", "load", 0.5});
    journal.append(AlertRaised{1, "loss rising", "why", 3});
    journal.append(AlertCleared{1, "loss rising"});
    journal.append(Requeued{"7"});
    journal.append(RunFailed{"7", Step(3), 69, "peer lost", "peer_lost"});
    journal.append(JobEnded{"7", "chain", 69, true, true, true});
    journal.append(CancelRequested{"7", "distdl cancel"});
  }
  void be_a_node() const {
    const health::NodeHealth all{0.5, 0.1, 0.2, 0.3, 0.4, 1, 2, 3, 100.0, health::GpuHealth{}};
    const HealthLog log(folder_, "HOST", 0, std::chrono::hours(1), [&all] { return all; });
  }
  std::vector<json> rows(const char* name) const {
    std::vector<json> all;
    std::ifstream in(folder_ / name);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }

  std::filesystem::path folder_;
};

std::string kind_of(const json& row) {
  if (row.contains("event")) return row["event"].get<std::string>();
  return row.contains("loss") ? "step" : row.contains("host") ? "node_health" : "evaluation";
}

TEST(StepRow, HasNumbersThatReadBackAsTheSame) {
  constexpr auto kInfinite = std::numeric_limits<double>::infinity();
  const train::StepDone step{Step(3), 1.0 / 3, 5e-324, 1, 1e300, kInfinite, -0.0, 1e16, 0.1 + 0.2};
  const auto text = observe::step_row(step, 1795790512.0957255, 2, true);
  const auto row = json::parse(text);
  EXPECT_EQ(row["time"], 1795790512.0957255);
  EXPECT_EQ(row["epoch"], 1.0 / 3);
  EXPECT_EQ(row["loss"], 5e-324);
  EXPECT_EQ(row["learning_rate"], 1e300);
  EXPECT_TRUE(row["samples_per_s"].is_null()) << "JSON has no such number";
  EXPECT_EQ(row["gradient_norm"], 1e16);
  EXPECT_EQ(row["loss_scale"], 0.1 + 0.2);
  EXPECT_EQ(row["version"], kRecordVersion);
  EXPECT_TRUE(row["step"].is_number_integer() && row["start"].is_number_integer());
  for (const char* real : {"accuracy", "waited_seconds", "gradient_norm"})
    EXPECT_TRUE(row[real].is_number_float()) << text;
}

TEST_F(Records, OfEachKindHaveTheFieldsOfTheTableAndNoOthers) {
  train();
  launch();
  be_a_node();
  std::set<std::string> kinds;
  std::map<std::string, std::set<std::string>> seen;
  for (const char* file : {"metrics.jsonl", "journal.jsonl", "health/HOST.jsonl"})
    for (const json& row : rows(file)) {
      const auto* const kind = find_kind(kind_of(row));
      ASSERT_NE(kind, nullptr) << row;
      EXPECT_EQ(kind->file, file);
      for (const auto& [key, value] : row.items()) seen[std::string(kind->name)].insert(key);
    }
  for (const RecordKind& kind : record_kinds()) {
    std::set<std::string> known, common;
    for (const Field& field : kind.fields) known.insert(std::string(field.name));
    for (const Field& field : common_fields()) common.insert(std::string(field.name));
    auto found = seen[std::string(kind.name)];
    EXPECT_TRUE(found.contains("time")) << kind.name << " was not written";
    for (const auto& each : common) found.erase(each);
    EXPECT_EQ(found, known) << kind.name;
  }
}

TEST(RecordTable, IsInTheDocuments) {
  std::ifstream in(SOURCE_DIR "/docs/metrics.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const auto begin = page.find("Version ");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(page.substr(begin), records_as_markdown()) << "run: build/bin/distdl config --records";
}

TEST(RecordTable, MetricsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  const auto check = [&](const Field& field) {
    if (field.metric.empty()) return;
    EXPECT_TRUE(names.insert(field.metric).second) << field.metric;
    EXPECT_THAT(std::string(field.metric), ::testing::MatchesRegex("distdl_[a-z_]+"));
    EXPECT_EQ(field.meaning.find_first_of("\"\\\n"), std::string_view::npos) << "the format would need escapes";
  };
  for (const Field& field : common_fields()) check(field);
  for (const RecordKind& kind : record_kinds())
    for (const Field& field : kind.fields) check(field);
  EXPECT_GT(names.size(), 10u);
}

bool is_listed(std::string_view code) {
  return std::any_of(records::kCauses.begin(), records::kCauses.end(),
                     [&](const records::CauseEntry& entry) { return entry.code == code; });
}

TEST(Causes, HaveCodesOfTheList) {
  EXPECT_EQ(records::cause_of_exit(0), "");
  for (int code = 1; code < 256; ++code) EXPECT_TRUE(is_listed(records::cause_of_exit(code))) << code;
  EXPECT_EQ(records::cause_of_exit(137), "signal");
  EXPECT_EQ(records::cause_of_exit(static_cast<int>(ExitCode::peer_lost)), "peer_lost");
  EXPECT_EQ(records::cause_of_exit(static_cast<int>(ExitCode::config)), "input");
  for (int kind = 1; kind <= static_cast<int>(agent::kLastCauseKind); ++kind) {
    const auto name = agent::name_of(static_cast<agent::CauseKind>(kind));
    EXPECT_TRUE(is_listed(records::cause_of_kind(name)) && records::cause_of_kind(name) != "unknown") << name;
  }
  EXPECT_EQ(records::cause_of_stop("signal SIGTERM"), "stop_signal");
  EXPECT_EQ(records::cause_of_stop("signal SIGINT"), "user");
  EXPECT_EQ(records::cause_of_stop("end of the job in 40 s"), "time_limit");
  EXPECT_EQ(records::cause_of_stop("the file STOP"), "user");
  EXPECT_EQ(records::cause_of_stop("another rank was asked to stop"), "stop_signal");
  EXPECT_EQ(records::cause_of_stop("a whim"), "unknown");
}

TEST(Causes, OfAFailureAreThoseOfWhoKnowsMost) {
  const auto row = [](const char* event, const char* cause, const char* code) {
    return Record{.event = event, .cause = cause, .cause_code = code};
  };
  std::vector<Record> journal{row("launch_ended", "storage", "storage"), row("launch", "", "")};
  EXPECT_FALSE(last_failure(journal)) << "it was of the launch before";
  journal.push_back(row("error", "rank 1 was lost", "peer_lost"));
  EXPECT_EQ(last_failure(journal)->cause, "rank 1 was lost");
  journal.push_back(row("launch_ended", "killed by SIGKILL", "signal"));
  EXPECT_EQ(last_failure(journal)->cause_code, "signal");
  journal.push_back(row("failure", "n1: rank 1 was killed", "signal"));
  EXPECT_EQ(last_failure(journal)->cause, "n1: rank 1 was killed");
  journal.push_back(row("error", "the disk is full", "storage"));
  EXPECT_EQ(last_failure(journal)->cause, "the disk is full");
  journal.push_back(row("launch_ended", "storage", "storage"));
  EXPECT_EQ(last_failure(journal)->cause, "the disk is full");
}
}  // namespace
}  // namespace distdl::observe
