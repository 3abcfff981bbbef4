// SPDX-License-Identifier: Apache-2.0
// The rows of this room are those that the run folder, the journal and the health log write.
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/record_writer.hpp>
#include <distdl/observe/records.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/step_row.hpp>
#include <distdl/records/kinds.hpp>
#include <distdl/records/row_text.hpp>
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::records {
namespace {
using nlohmann::json;
constexpr double kThird = 1.0 / 3, kInfinite = std::numeric_limits<double>::infinity();

class RowTexts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("texts_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  /// Takes the last line that an old writer has made; the new one gets its time.
  void expect_last(const char* file, Record record, std::int64_t start = 0, bool has_version = false) const {
    std::ifstream in(folder_ / file);
    std::string last;
    for (std::string line; std::getline(in, line);) last = line;
    Row row{std::move(record), json::parse(last)["time"].get<double>(), start, has_version};
    EXPECT_EQ(text_of(row), last);
    const auto again = parse_row(last);
    ASSERT_TRUE(again) << last;
    Row read = *again;
    read.has_version = has_version;
    if (last.find("null") == std::string::npos) {
      EXPECT_EQ(text_of(read), last) << "what is read is what was written";
    }
  }
  std::filesystem::path folder_;
};

TEST(Kinds, AreThoseOfTheTable) {
  EXPECT_EQ(records_as_markdown(), observe::records_as_markdown());
}

TEST_F(RowTexts, OfStepsAreThose) {
  const auto compare = [](const train::StepDone& old, const StepDone& now) {
    for (const bool version : {false, true})
      EXPECT_EQ(text_of(Row{now, 1795790512.0957255, 2, version}),
                observe::step_row(old, 1795790512.0957255, 2, version));
    EXPECT_EQ(text_of(Row{now, 1e9, {}, false}), observe::step_row(old, 1e9, 0, false));
  };
  compare({Step(3)}, {.step = Step(3), .loss = 0, .accuracy = 0, .learning_rate = 0, .samples_per_s = 0});
  compare({Step(3), kThird, 5e-324, 1, 1e300, kInfinite, -0.0, 1e16, 0.1 + 0.2},
          {Step(3), kThird, 5e-324, 1, 1e300, kInfinite, -0.0, 1e16, 0.1 + 0.2});
  compare({Step(3), 100000, 1,   0.5, 1e5, 123456789012, 0.1, 2.5,   1024.0, true,
           0.1,     0.1,    0.1, 0.1, 0.1, "int8",       0.5, 0.625, {3, 1}, true},
          {Step(3), 100000, 1,   0.5, 1e5, 123456789012, 0.1, 2.5,   1024.0, true,
           0.1,     0.1,    0.1, 0.1, 0.1, "int8",       0.5, 0.625, {3, 1}, true});
}

TEST_F(RowTexts, OfRank0AreThose) {
  observe::RunFolder old(folder_, 1);
  old.on(train::Started{{}, Step(100), 2, 50, 5, "reference"});
  expect_last("journal.jsonl", Started{.total_steps = Step(100), .world_size = 2, .backend = "reference", .restart = 1},
              0, true);
  train::Started started{Step(2), Step(100), 2, 50, 5, "refe\"rence\xff", "the file system", true};
  started.start = 3;
  started.compute = {1e6, 1.25e6, 1e9};
  started.product = "2x1x1 replicas";
  old.on(started);
  Started now{Step(2),         Step(100), 2, 50, 5, "refe\"rence\xff", "the file system", true, 3, {1e6, 1.25e6, 1e9},
              "2x1x1 replicas"};
  now.restart = 1;
  now.interrupted = true;
  expect_last("journal.jsonl", now, 3, true);
  const auto same = [&](const auto& event, const Record& record) {
    old.on(event);
    expect_last("journal.jsonl", record, 3);
  };
  old.on(train::Evaluated{Step(3), kThird, 1e16, 0.5, 50, Step(3)});
  expect_last("metrics.jsonl", Evaluated{Step(3), kThird, 1e16, 0.5, 50, Step(3)}, 3, true);
  old.on(train::Evaluated{Step(3)});
  expect_last("metrics.jsonl", Evaluated{.step = Step(3), .loss = 0, .accuracy = 0}, 3);
  same(train::ResourcesUsed{Step(3)}, ResourcesUsed{Step(3)});
  same(train::ResourcesUsed{Step(3), 1, 2, 3, 1e20, 5, 6, {{"all_reduce", 7, 800, 0.5}, {"gather", 1, 2, 3}}},
       ResourcesUsed{Step(3), 1, 2, 3, 1e20, 5, 6, {"all_reduce", "gather"}, {7, 1}, {800, 2}, {0.5, 3}});
  same(train::CompressionChosen{Step(3), "", ""}, CompressionChosen{Step(3)});
  same(train::CompressionChosen{Step(3), "int8", "why"}, CompressionChosen{Step(3), "int8", "why"});
  same(train::SharesKnown{Step(3), true, {1, 2}, {kThird, 0.2}, {"n1", "n2"}, 4, true, "why"},
       SharesKnown{Step(3), true, {1, 2}, {kThird, 0.2}, {"n1", "n2"}, 4, true, "why"});
  same(train::RangesKnown{Step(3), true, {100, 200}, {1e-9, 2e-9}, {"n1", "n2"}, "why"},
       RangesKnown{Step(3), true, {100, 200}, {1e-9, 2e-9}, {"n1", "n2"}, "why"});
  same(train::SharesKnown{}, SharesKnown{});
  same(train::RangesKnown{}, RangesKnown{});
  same(train::RanksDisturbed{Step(3), {0, 2}, {"n1", "n2"}}, RanksDisturbed{Step(3), {0, 2}, {"n1", "n2"}});
  same(train::RanksDisturbed{}, RanksDisturbed{});
  same(train::CheckpointSaved{Step(3), 1000, 0.5, 0.1, {"memory"}},
       CheckpointSaved{Step(3), 1000, 0.5, 0.1, {"memory"}});
  same(train::CheckpointSaved{Step(3)}, CheckpointSaved{Step(3)});
  same(train::SnapshotKept{Step(3), 0.5, 0.1, {"memory", "partner"}},
       SnapshotKept{Step(3), 0.5, 0.1, {"memory", "partner"}});
  same(train::SnapshotKept{Step(3)}, SnapshotKept{Step(3)});
  same(train::SnapshotFailed{Step(3), "wh\ny"}, SnapshotFailed{Step(3), "wh\ny"});
  same(train::SaveSkipped{Step(3), 1}, SaveSkipped{Step(3), 1});
  same(train::SaveFailed{Step(3), "why"}, SaveFailed{Step(3), "why"});
  same(train::Audited{Step(3), 0.5}, Audited{Step(3), 0.5});
  same(train::Corrupted{Step(3), Step(2), {1}, {"n1", "n2"}, false, "why", {Step(3), Step(4)}},
       Corrupted{Step(3), Step(2), {1}, {"n1", "n2"}, false, "why", {Step(3), Step(4)}});
  same(train::Corrupted{Step(3)}, Corrupted{Step(3)});
  const train::DeadlineKnown deadline{.end = 2e9,
                                      .last_safe = 1.9e9,
                                      .needed = 3,
                                      .margin = 1,
                                      .times = {1, 2, kThird, 4},
                                      .warning = 1.8e9,
                                      .preemption = "REQUEUE",
                                      .grace_seconds = 30,
                                      .grace_is_enough = false};
  same(deadline,
       DeadlineKnown{2e9, 1.9e9, 3, 1, {1, 2, kThird, 4}, 1.8e9, "REQUEUE", 30, false, train::explain(deadline)});
  same(train::DeadlineKnown{}, DeadlineKnown{.reason = train::explain(train::DeadlineKnown{})});
  old.failed(StorageError("why"));
  expect_last("journal.jsonl", RankFailed{Step(2), 74, "why", ""}, 3);
  same(train::Stopped{Step(3), "signal SIGTERM"}, Stopped{Step(3), "signal SIGTERM"});
  same(train::Finished{Step(3), 0.25, 0.5, "no better evaluations"},
       Finished{Step(3), 0.25, 0.5, "no better evaluations"});
  same(train::Finished{Step(3)}, Finished{Step(3)});
}

TEST_F(RowTexts, OfJobsAreThose) {
  std::filesystem::create_directories(folder_);
  observe::Journal old(folder_);
  const auto same = [&](const auto& event, const Record& record) {
    old.append(event);
    expect_last("journal.jsonl", record);
  };
  same(observe::Submitted{"7", "chain", 1, 2}, Submitted{"7", "chain", 1, 2});
  same(observe::Submitted{}, Submitted{});
  same(observe::JobStarted{"7", 1, "n1", "chain", 4, 2, 1234.5, "1.0", "kind"},
       JobStarted{"7", 1, "n1", "chain", 4, 2, 1234.5, "1.0", "kind"});
  same(observe::JobStarted{}, JobStarted{.ranks = 1, .nodes = 1});
  same(observe::NodesChecked{2, 1, {"n3"}, "slow", "n4"}, NodesChecked{2, 1, {"n3"}, "slow", "n4"});
  same(observe::NodesChecked{}, NodesChecked{.nodes = 1});
  same(observe::LaunchBegan{4, "n1,n2", "ab12"}, LaunchBegan{4, "n1,n2", "ab12"});
  same(observe::LaunchBegan{}, LaunchBegan{1});
  same(observe::LaunchEnded{137, "killed", true}, LaunchEnded{137, "killed", true});
  same(observe::LaunchEnded{}, LaunchEnded{0});
  same(observe::GenerationFailed{1, 1e9, "n2: killed", "killed", "n2", 1},
       GenerationFailed{1, "n2: killed", "killed", "n2", 1});
  same(observe::GenerationFailed{}, GenerationFailed{});
  same(observe::GenerationBegan{2, "n2: killed", 2, "n1"}, GenerationBegan{2, "n2: killed", 2, "n1"});
  same(observe::GenerationBegan{}, GenerationBegan{.ranks = 1});
  same(observe::ProductChosen{2, "parameter_server", "why", {Rank(0)}, {Rank(1)}, {"n1", "n2"}},
       ProductChosen{2, "parameter_server", "why", {Rank(0)}, {Rank(1)}, {"n1", "n2"}});
  same(observe::ProductChosen{2, "p", ""}, ProductChosen{2, "p"});
  same(observe::NodeLost{}, NodeLost{});
  same(observe::NodeAtRisk{"n1", "load", 0.5}, NodeAtRisk{"n1", "load", 0.5});
  same(observe::AlertRaised{1, "loss rising", "why", 3}, AlertRaised{1, "loss rising", "why", Step(3)});
  same(observe::AlertRaised{1, "loss rising", "why"}, AlertRaised{1, "loss rising", "why"});
  same(observe::AlertCleared{1, "loss rising"}, AlertCleared{1, "loss rising"});
  same(observe::Requeued{"7"}, Requeued{"7"});
  same(observe::RunFailed{"7", Step(3), 69, "peer lost", "peer_lost"},
       RunFailed{"7", Step(3), 69, "peer lost", "peer_lost"});
  same(observe::RunFailed{}, RunFailed{.code = 0});
  same(observe::JobEnded{"7", "chain", 69, true, true, true}, JobEnded{"7", "chain", 69, true, true, true});
  same(observe::JobEnded{}, JobEnded{.code = 0});
  same(observe::CancelRequested{"7", "distdl cancel"}, CancelRequested{"7", "distdl cancel"});
  same(observe::CancelRequested{}, CancelRequested{});
}

TEST_F(RowTexts, OfNodesAreThose) {
  std::filesystem::create_directories(folder_);
  const auto local_time = [&] {
    std::ifstream in(folder_ / "bad-nodes.jsonl");
    std::string last;
    for (std::string line; std::getline(in, line);) last = line;
    return json::parse(last)["local_time"].get<std::string>();
  };
  observe::note_bad_node(folder_, {"n1", "slow", "7"});
  expect_last("bad-nodes.jsonl", NodeIsBad{local_time(), "n1", "slow", "7"});
  observe::note_bad_node(folder_, {});
  expect_last("bad-nodes.jsonl", NodeIsBad{local_time()});
  observe::note_exclusion(folder_, "7", {"n1", "n2"});
  expect_last("bad-nodes.jsonl", NodesExcluded{local_time(), {"n1", "n2"}, "7"});
  const auto compare = [&](const health::NodeHealth& old, NodeHealth now) {
    now.host = "n1";
    observe::RecordWriter(folder_ / "health.jsonl").append(to_text(observe::HealthRow{"n1", 1e9, old}));
    expect_last("health.jsonl", now);
  };
  compare({}, {});
  compare({0.5, 0.1, 0.2, kThird, 0.4, 1, 2, 3, 100.0, health::GpuHealth{}},
          {0.5, 0.1, 0.2, kThird, 0.4, 1, 2, 3, 100.0, GpuHealth{}});
  compare({.gpus = health::GpuHealth{8, 71, 1, 2, 3, 4}}, {.gpus = GpuHealth{8, 71, 1, 2, 3, 4}});
}
}  // namespace
}  // namespace distdl::records
