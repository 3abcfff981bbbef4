// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/agent/cause.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/records/kinds.hpp>
#include <distdl/records/row_text.hpp>

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
    records::Started started{Step(2), Step(100), 2, 50, 5, "reference", "the file system", true};
    started.start = 3;
    started.compute = {1e6, 1.25e6, 1e9};
    started.product = "2x1x1 replicas";
    records.on(started);
    records::StepDone step{Step(3), 0.5, 1,   0.5, 0.01, 100,    0.1, 2.5,   1024.0, true,
                           0.1,     0.1, 0.1, 0.1, 0.1,  "int8", 0.5, 0.625, {3, 1}};
    step.names = {"bleu"};
    step.values = {27.5};
    records.on(step);
    records.on(records::ResourcesUsed{Step(3), 1, 2, 3, 4, 5, 6, {"all_reduce"}, {7}, {800}, {0.5}});
    records.on(records::Evaluated{Step(3), 0.5, 0.25, 0.5, 50, Step(3)});
    records.on(records::CompressionChosen{Step(3), "int8", "why"});
    records.on(records::SharesKnown{Step(3), true, {1, 2}, {0.1, 0.2}, {"n1", "n2"}, 4, false, "why"});
    records.on(records::RangesKnown{Step(3), true, {100, 200}, {1e-9, 2e-9}, {"n1", "n2"}, "why"});
    records.on(records::RanksDisturbed{Step(3), {0, 2}, {"n1", "n2"}});
    records.on(records::CheckpointSaved{Step(3), 1000, 0.5, 0.1, {"memory"}});
    records.on(records::SnapshotKept{Step(3), 0.5, 0.1, {"memory", "partner"}});
    records.on(records::SnapshotFailed{Step(3), "why"});
    records.on(records::SaveSkipped{Step(3)});
    records.on(records::SaveFailed{Step(3), "why"});
    records.on(records::Audited{Step(3), 0.5});
    records.on(records::Corrupted{Step(3), Step(2), {1}, {"n1"}, false, "why", {Step(3)}});
    records.on(records::DeadlineKnown{.end = 2e9,
                                      .last_safe = 1.9e9,
                                      .warning = 1.8e9,
                                      .preemption = "REQUEUE",
                                      .grace_seconds = 30,
                                      .grace_is_enough = true});
    records.failed(StorageError("why"));
    records.on(records::Stopped{Step(3), "signal SIGTERM"});
    records.on(records::Finished{Step(3), 0.25, 0.5, "no better evaluations"});
  }
  void launch() const {
    Journal journal(folder_);
    journal.append(records::Submitted{"7", "chain", 1, 2});
    journal.append(records::JobStarted{"7", 1, "n1", "chain", 4, 2, 1234.5, "1.0", "kind"});
    journal.append(records::NodesChecked{2, 1, {"n3"}, "slow", "n4"});
    journal.append(records::LaunchBegan{4, "n1,n2", "ab12"});
    journal.append(records::LaunchEnded{137, "killed", true});
    journal.append(records::GenerationFailed{1, "n2: killed", "killed", "n2", 1});
    journal.append(records::GenerationBegan{2, "n2: killed", 2, "n1"});
    journal.append(records::ProductChosen{2, "parameter_server", "why", {Rank(0)}, {Rank(1)}, {"n1", "n2"}});
    journal.append(records::NodeLost{});
    journal.append(records::NodeAtRisk{"n1", "load", 0.5});
    journal.append(records::AlertRaised{1, "loss rising", "why", Step(3)});
    journal.append(records::AlertCleared{1, "loss rising"});
    journal.append(records::Requeued{"7"});
    journal.append(records::RunFailed{"7", Step(3), 69, "peer lost", "peer_lost"});
    journal.append(records::JobEnded{"7", "chain", 69, true, true, true});
    journal.append(records::CancelRequested{"7", "distdl cancel"});
    journal.append(records::RequeueRequested{"7", "distdl requeue"});
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

const records::RecordKind* find_kind(std::string_view name) {
  const auto kinds = records::record_kinds();
  const auto found = std::ranges::find(kinds, name, &records::RecordKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

std::string kind_of(const json& row) {
  if (row.contains("event")) return row["event"].get<std::string>();
  return row.contains("loss") ? "step" : row.contains("host") ? "node_health" : "evaluation";
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
  for (const records::RecordKind& kind : records::record_kinds()) {
    std::set<std::string> known, common;
    for (const records::Field& field : kind.fields) known.insert(std::string(field.name));
    for (const records::Field& field : records::common_fields()) common.insert(std::string(field.name));
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
  EXPECT_EQ(page.substr(begin), records::records_as_markdown()) << "run: build/bin/distdl config --records";
  std::vector<std::string> frequent;
  for (const records::RecordKind& kind : records::record_kinds())
    if (kind.traits.is_frequent) frequent.push_back(fmt::format("`{}`", kind.name));
  ASSERT_GT(frequent.size(), 1u);
  const std::string last = frequent.back();
  frequent.pop_back();
  EXPECT_THAT(page, ::testing::HasSubstr(fmt::format("{} and {} only once", fmt::join(frequent, ", "), last)));
}

TEST(RecordTable, MetricsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  const auto check = [&](const records::Field& field) {
    if (field.metric.empty()) return;
    EXPECT_TRUE(names.insert(field.metric).second) << field.metric;
    EXPECT_THAT(std::string(field.metric), ::testing::MatchesRegex("distdl_[a-z_]+"));
    EXPECT_EQ(field.meaning.find_first_of("\"\\\n"), std::string_view::npos) << "the format would need escapes";
  };
  for (const records::Field& field : records::common_fields()) check(field);
  for (const records::RecordKind& kind : records::record_kinds())
    for (const records::Field& field : kind.fields) check(field);
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
  using namespace records;
  std::vector<Row> journal{{LaunchEnded{74, "storage"}}, {LaunchBegan{}}};
  EXPECT_FALSE(last_failure(journal)) << "it was of the launch before";
  const auto add = [&journal](const std::string& event, const std::string& cause, int code, const char* kind = "") {
    const auto text = json{{"event", event}, {"cause", cause}, {"code", code}, {"kind", kind}}.dump();
    journal.push_back(parse_row(text).value());
  };
  add("error", "rank 1 was lost", 69);
  EXPECT_EQ(last_failure(journal)->cause, "rank 1 was lost");
  add("launch_ended", "killed by SIGKILL", 137);
  EXPECT_EQ(last_failure(journal)->cause_code, "signal");
  add("failure", "n1: rank 1 was killed", 0, "killed");
  EXPECT_EQ(last_failure(journal)->cause, "n1: rank 1 was killed");
  add("error", "the disk is full", static_cast<int>(ExitCode::storage));
  EXPECT_EQ(last_failure(journal)->cause, "the disk is full");
  add("launch_ended", "storage", static_cast<int>(ExitCode::storage));
  EXPECT_EQ(last_failure(journal)->cause, "the disk is full");
}
}  // namespace
}  // namespace distdl::observe
