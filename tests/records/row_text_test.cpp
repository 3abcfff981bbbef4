// SPDX-License-Identifier: Apache-2.0
// Rows are written as each version has written them: rows.txt has a full and an empty one of each kind.
#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pthread.h>

#include <distdl/base/env.hpp>
#include <distdl/records/kinds.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::records {
namespace {
constexpr double kTime = 1795790512.0957255, kThird = 1.0 / 3, kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kStart = 3;

/// The rows that rank 0 writes.
std::vector<Row> rows_of_rank0() {
  const StepDone step{Step(3), 1e5,    1,   0.5, 1e-5, 123456789012, 0.1, 2.5,   1024,  true,
                      0.1,     kThird, 0.1, 0.1, 0.1,  "int8",       0.5, 0.625, {3, 1}};
  const StepDone odd{Step(4), kThird, 5e-324, 1, 1e300, kInfinite, -0.0, 1e16, 0.1 + 0.2};
  Started started{Step(2), Step(100),         2, 50, 5, "\"reference\"\xff", "the file system", true,
                  kStart,  {1e6, 1.25e6, 1e9}};
  started.product = "2x1x1 replicas";
  started.restart = 1;
  started.steps_repeated = 7;
  started.interrupted = true;
  const DeadlineKnown deadline{2e9, 1.9e9, 3, 1, {1, 2, kThird, 4}, 1.8e9, "REQUEUE", 30, false, "why"};
  const std::vector<Record> records{
      step,
      odd,
      StepDone{.step = Step(5), .loss = 0, .accuracy = 0, .learning_rate = 0, .samples_per_s = 0, .waited_seconds = 0},
      Evaluated{Step(3), kThird, 1e16, 0.5, 50, Step(3)},
      Evaluated{.step = Step(3), .loss = 0, .accuracy = 0},
      ProductChosen{2, "parameter_server", "why", {Rank(0)}, {Rank(1)}, {"n1", "n2"}},
      ProductChosen{},
      started,
      Started{.total_steps = Step(100), .world_size = 1},
      StillTraining{Step(3), 1048576},
      ResourcesUsed{Step(3), 1, 2, 3, 1e20, 5, 6, {"all_reduce", "gather"}, {7, 1}, {800, 2}, {0.5, 3}},
      ResourcesUsed{},
      deadline,
      DeadlineKnown{},
      SharesKnown{Step(3), true, {1, 2}, {kThird, 0.2}, {"n1", "n2"}, 4, true, "why"},
      SharesKnown{},
      RangesKnown{Step(3), true, {100, 200}, {1e-9, 2e-9}, {"n1", "n2"}, "why"},
      RangesKnown{},
      RanksDisturbed{Step(3), {0, 2}, {"n1", "n2"}},
      RanksDisturbed{},
      CompressionChosen{Step(3), "int8", "why"},
      CheckpointSaved{Step(3), 1000, 0.5, 0.1, {"memory"}},
      CheckpointSaved{.step = Step(3), .stall_seconds = 0},
      SnapshotKept{Step(3), 0.5, 0.1, {"memory", "partner"}},
      SnapshotKept{Step(3)},
      SnapshotFailed{Step(3), "wh\ny"},
      SaveSkipped{Step(3)},
      SaveFailed{Step(3), "why"},
      Audited{Step(3), 0.5},
      Corrupted{Step(3), Step(2), {1}, {"n1", "n2"}, false, "why", {Step(3), Step(4)}},
      Corrupted{},
      RankFailed{Step(2), 74, "why"},
      RankFailed{Step(2), 78, "why", "diverged"},
      Stopped{Step(3), "signal SIGTERM"},
      Finished{Step(3), 0.25, 0.5, "no better evaluations"},
      Finished{Step(3)},
  };
  std::vector<Row> rows;
  for (const Record& record : records) rows.push_back({record, kTime, kStart});
  for (const std::size_t first : {0, 3, 7}) rows[first].has_version = true;
  rows[2].start = 0;  // not known
  return rows;
}

/// The rows that other processes write.
std::vector<Row> rows_of_others() {
  const NodeHealth health{0.5, 0.1, 0.2, kThird, 0.4, 1, 2, 3, 100, GpuHealth{8, 71, 1, 2, 3, 4}, "n1"};
  const std::vector<Record> records{
      Submitted{"7", "chain", 1, 2},
      Submitted{},
      JobStarted{"7", 1, "n1", "chain", 4, 2, 1234.5, "1.0", "kind"},
      JobStarted{},
      NodesChecked{2, 1, {"n3"}, "slow", "n4"},
      NodesChecked{},
      LaunchBegan{4, "n1,n2", "ab12"},
      LaunchBegan{1},
      LaunchEnded{137, "killed", true},
      LaunchEnded{0},
      GenerationFailed{1, "n2: killed", "killed", "n2", 1},
      GenerationFailed{},
      GenerationBegan{2, "n2: killed", 2, "n1"},
      GenerationBegan{},
      NodeLost{},
      NodeAtRisk{"n1", "load", 0.5},
      AlertRaised{1, "loss rising", "why", Step(3)},
      AlertRaised{1, "loss rising", "why"},
      AlertCleared{1, "loss rising"},
      Requeued{"7"},
      RunFailed{"7", Step(3), 69, "peer lost", "peer_lost"},
      RunFailed{.code = 0},
      JobEnded{"7", "chain", 69, true, true, true},
      JobEnded{.code = 0},
      CancelRequested{"7", "distdl cancel"},
      CancelRequested{},
      RequeueRequested{"7", "distdl requeue"},
      RequeueRequested{},
      health,
      NodeHealth{.host = "n1"},
      NodeIsBad{"2026-03-01 12:00:00", "n1", "slow", "7"},
      NodeIsBad{"2026-03-01 12:00:00"},
      NodesExcluded{"2026-03-01 12:00:00", {"n1", "n2"}, "7"},
  };
  std::vector<Row> rows;
  for (const Record& record : records) rows.push_back({record, kTime});
  for (Row& row : rows) row.has_version = row.is<NodeHealth>();
  return rows;
}

std::vector<Row> all_rows() {
  auto rows = rows_of_rank0();
  std::ranges::move(rows_of_others(), std::back_inserter(rows));
  return rows;
}

TEST(RowTexts, AreThoseOfEachVersion) {
  const auto rows = all_rows();
  std::set<std::size_t> kinds;
  for (const Row& row : rows) kinds.insert(row.record.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<Record> - 1) << "a row of each kind, but of those of later versions";
  if (env("DISTDL_WRITE_ROWS")) {  // after a kind or a field has come
    std::ofstream out(ROWS);
    for (const Row& row : rows) out << text_of(row) << '\n';
  }
  std::ifstream in(ROWS);
  std::string line;
  for (const Row& row : rows) {
    ASSERT_TRUE(std::getline(in, line)) << text_of(row);
    EXPECT_EQ(text_of(row), line);
  }
  EXPECT_FALSE(std::getline(in, line)) << line;
}

TEST(RowTexts, AreReadAsTheyWereWritten) {
  for (const Row& row : all_rows()) {
    const auto text = text_of(row);
    auto read = parse_row(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->record.index(), row.record.index()) << text;
    read->has_version = row.has_version;
    if (row.as<StepDone>() && row.as<StepDone>()->samples_per_s == kInfinite) continue;
    EXPECT_EQ(text_of(*read), text);
  }
}

TEST(RowTexts, OfStepsReadBackAsTheSameNumbers) {
  const StepDone odd{Step(3), kThird, 5e-324, 1, 1e300, kInfinite, -0.0, 1e16, 0.1 + 0.2};
  const auto text = text_of({odd, kTime, 2, true});
  const auto row = nlohmann::json::parse(text);
  EXPECT_EQ(row["time"], kTime);
  EXPECT_EQ(row["epoch"], kThird);
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

TEST(Rows, OfMetricsHaveTheirKindByTheirFields) {
  const auto index = [](const char* text) { return parse_row(text).value().record.index(); };
  const auto of = [](const Record& record) { return record.index(); };
  EXPECT_EQ(index(R"({"step":3,"loss":1})"), of(StepDone{}));
  EXPECT_EQ(index(R"({"step":3,"loss":null,"validation_loss":1})"), of(StepDone{}));
  EXPECT_EQ(index(R"({"step":3})"), of(StepDone{})) << "of version 1";
  EXPECT_EQ(index(R"({"step":3,"validation_accuracy":1})"), of(Evaluated{}));
  EXPECT_EQ(index(R"({"event":7,"step":3})"), of(StepDone{}));
  EXPECT_EQ(index(R"({"loss":3})"), of(Other{})) << "a step that nobody knows";
  EXPECT_EQ(index(R"({"step":-3,"loss":3})"), of(Other{}));
  EXPECT_EQ(index(R"({"step":1.5,"loss":3})"), of(Other{}));
  EXPECT_EQ(index(R"({"step":1e300,"loss":3})"), of(Other{}));
  EXPECT_EQ(index(R"({"time":3,"host":"n1"})"), of(NodeHealth{}));
  EXPECT_EQ(index(R"({"event":"step","step":3})"), of(Other{})) << "no event has this name";
}

TEST(Rows, OfLaterVersionsAreKept) {
  const auto row = parse_row(R"({"event":"dreamt","time":5,"start":2,"step":7,"of":"sheep"})").value();
  EXPECT_TRUE(row.is<Other>());
  EXPECT_EQ(name_of(row.record), "dreamt");
  EXPECT_EQ(step_of(row.record), Step(7));
  EXPECT_EQ(row.time, 5);
  EXPECT_EQ(row.start, 2);
  EXPECT_TRUE(parse_row(R"({"event":"audited","step":7,"of":"sheep"})")->is<Audited>()) << "with a field more";
  const auto later = parse_row(R"({"event":"dreamt","job":"7","cause":"sheep","cause_code":"user"})").value().record;
  EXPECT_EQ(job_of(later), "7");
  EXPECT_EQ(cause_of(later), "sheep");
  EXPECT_EQ(cause_code_of(later), "user");
}

TEST(Rows, WithoutAnObjectAreNone) {
  for (const char* text : {"", "null", "[]", "{", "{\"event\":\"started\"", "\xff", "7"}) EXPECT_FALSE(parse_row(text));
  EXPECT_FALSE(parse_row("{\"event\":\"" + std::string(kLongestLine, 'x') + "\"}"));
}

TEST(Rows, LackFieldsThatAreDamaged) {
  const auto row = parse_row(
      R"({"event":"checkpoint","time":-1,"start":"x","step":"x","bytes":-5,"seconds":1e300,"stall_seconds":null,"levels":["disk","tape","","\u001b[31m","Disk"]})");
  ASSERT_TRUE(row && row->is<CheckpointSaved>());
  EXPECT_EQ(row->time, 0);
  EXPECT_FALSE(row->start);
  const auto& saved = *row->as<CheckpointSaved>();
  EXPECT_FALSE(saved.step);
  EXPECT_EQ(saved.bytes, 0u);
  EXPECT_EQ(saved.seconds, 0);
  EXPECT_FALSE(saved.stall_seconds);
  EXPECT_EQ(saved.levels, (std::vector<std::string>{"disk", "tape"}));  // "tape" may be one of a later version
  const auto job = parse_row(R"({"event":"job_started","ranks":5000000000,"node_count":1.5,"job":7})");
  EXPECT_EQ(job->as<JobStarted>()->ranks, 0);
  EXPECT_EQ(job->as<JobStarted>()->nodes, 0);
  EXPECT_EQ(job->as<JobStarted>()->job, "");
  EXPECT_EQ(parse_row(R"({"event":"started","steps_repeated":2000000000})")->as<Started>()->steps_repeated, 0);
  EXPECT_EQ(parse_row(R"({"step":1,"loss":-2})")->as<StepDone>()->loss, -2) << "a loss may be negative";
  EXPECT_FALSE(parse_row(R"({"step":1,"accuracy":-2})")->as<StepDone>()->accuracy);
  const auto resources = parse_row(R"({"event":"resources","peak_bytes":3,"collectives":["a"],"calls":[1,2]})");
  EXPECT_EQ(resources->as<ResourcesUsed>()->peak, 3);
  EXPECT_TRUE(resources->as<ResourcesUsed>()->calls.empty());
}

TEST(Rows, WithoutTheStepOfTheirKindAreNotOfStep0) {
  const auto row = parse_row(R"({"event":"save_failed","time":7,"reason":"disk full"})").value();
  EXPECT_EQ(row.as<SaveFailed>()->reason, "disk full");
  EXPECT_FALSE(step_of(row.record));
  const auto resources = parse_row(R"({"event":"resources","parameter_bytes":7})").value();
  for_each_number(resources.record, [](const Field& field, double) { EXPECT_NE(field.name, "step"); });
}

TEST(Rows, OfNodesHaveNumbersWhoseSumsAreNumbers) {
  const auto row = parse_row(
      R"({"time":7,"host":"n1","load":1e300,"io_pressure":0.5,"throttles":7,"energy_joules":1e308,"gpus":{"count":2,"hottest":1e100}})");
  const auto& health = *row->as<NodeHealth>();
  EXPECT_FALSE(health.load || health.energy || health.gpus->hottest);
  EXPECT_EQ(health.io_pressure, 0.5);
  EXPECT_EQ(health.throttles, 7);
  EXPECT_EQ(health.gpus->gpus, 2);
}

/// Threads have 2 MiB of stack where that of processes has no limit, and rows of others are read by many threads.
TEST(Rows, TakeLittleStackHoweverDeepTheyAre) {
  const std::size_t deep = kLongestLine / 2 - 200;
  const auto line = R"({"step":3,"loss":1,"x":")" + std::string(110, ':') + R"(","y":)" + std::string(deep, '[') +
                    std::string(deep, ']') + "}";
  ASSERT_LE(line.size(), kLongestLine);
  std::optional<Row> row;
  const auto read = [&] { row = parse_row(line); };
  pthread_attr_t small{};
  ASSERT_EQ(pthread_attr_init(&small), 0);
  constexpr std::size_t kStack = 1 << 20;
  ASSERT_EQ(pthread_attr_setstacksize(&small, kStack), 0);
  pthread_t thread{};
  auto* const start = +[](void* work) -> void* { return (*static_cast<decltype(read)*>(work))(), nullptr; };
  ASSERT_EQ(pthread_create(&thread, &small, start, const_cast<void*>(static_cast<const void*>(&read))), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  ASSERT_EQ(pthread_attr_destroy(&small), 0);
  ASSERT_TRUE(row && row->is<StepDone>());
  EXPECT_EQ(row->as<StepDone>()->loss, 1);
}

TEST(Rows, OfVersion1GetTheCodesOfTheirCauses) {
  const auto code = [](const char* text) { return cause_code_of(parse_row(text).value().record); };
  EXPECT_EQ(code(R"({"event":"stopped","reason":"signal SIGINT"})"), "user");
  EXPECT_EQ(code(R"({"event":"failure","kind":"node lost"})"), "node_lost");
  EXPECT_EQ(code(R"({"event":"launch_ended","code":137})"), "signal");
  EXPECT_EQ(code(R"({"event":"error","code":74,"cause_code":"diverged"})"), "diverged");
}

TEST(Numbers, AreThoseWithAMetricThatTheRowHas) {
  std::vector<std::pair<std::string, double>> found;
  const auto visit = [&](const Field& field, double value) { found.emplace_back(field.metric, value); };
  for_each_number(CheckpointSaved{Step(3), 1000, 0.5, 0.25}, visit);
  for_each_number(StepDone{.step = Step(4), .loss = kInfinite, .mfu = 0.5}, visit);
  for_each_number(ResourcesUsed{.step = Step(4)}, visit);
  const std::vector<std::pair<std::string, double>> expected{{"distdl_checkpoint_step", 3},
                                                             {"distdl_checkpoint_bytes", 1000},
                                                             {"distdl_checkpoint_seconds", 0.5},
                                                             {"distdl_checkpoint_stall_seconds", 0.25},
                                                             {"distdl_step", 4},
                                                             {"distdl_epoch", 0},
                                                             {"distdl_mfu_ratio", 0.5},
                                                             {"distdl_parameter_bytes", 0},
                                                             {"distdl_gradient_bytes", 0},
                                                             {"distdl_optimizer_bytes", 0},
                                                             {"distdl_activation_bytes", 0},
                                                             {"distdl_workspace_bytes", 0}};
  EXPECT_EQ(found, expected);
}
}  // namespace
}  // namespace distdl::records
