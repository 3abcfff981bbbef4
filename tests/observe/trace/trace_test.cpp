// SPDX-License-Identifier: Apache-2.0
// The spans of several ranks on one clock: those of a run, and such whose times are known.
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/activity_page.hpp>
#include <distdl/observe/trace/trace.hpp>
#include <distdl/observe/trace/trace_events.hpp>
#include <distdl/observe/trace/trace_summary.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using train::ClockOffset;
using train::Outcome;
using train::TracedSteps;
using train::TraceFile;
using train::TraceSetting;
using train::TraceWriter;
using Recorded = TraceFile::Recorded;

/// The spans of each thread lie within each other, or apart.
void expect_nested(const TraceFile& rank) {
  for (std::size_t thread = 0; thread < rank.threads.size(); ++thread) {
    std::vector<Recorded> spans;
    for (const auto& span : rank.spans)
      if (span.thread == thread && nests(span.kind)) spans.push_back(span);
    std::ranges::stable_sort(spans, [](const Recorded& a, const Recorded& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<std::int64_t> ends;
    for (const auto& span : spans) {
      EXPECT_LE(span.begin, span.end);
      while (!ends.empty() && ends.back() <= span.begin) ends.pop_back();
      if (!ends.empty()) {
        EXPECT_LE(span.end, ends.back()) << rank.name(span) << " in " << rank.threads[thread];
      }
      ends.push_back(span.end);
    }
  }
}

/// A step is phases and nothing else.
void expect_whole_steps(const TraceFile& rank) {
  for (const auto& step : rank.spans) {
    if (step.kind != SpanKind::step) continue;
    std::int64_t in_phases = 0;
    for (const auto& span : rank.spans)
      if (span.kind == SpanKind::phase && is_of_training_thread(rank, span) && span.begin >= step.begin &&
          span.end <= step.end)
        in_phases += span.end - span.begin;
    EXPECT_EQ(in_phases, step.end - step.begin) << "step " << step.number;
  }
}

std::string events_of(const Trace& trace, const std::filesystem::path& folder) {
  std::string text;
  write_trace_events(trace, folder, [&](std::string_view part) { text += part; });
  return text;
}

class TraceOfRun : public train::Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    shared_memory_ranks_ = 1;  // so that there are messages
    trace_ = TraceSetting{folder_ / "trace", {4, 100}};
  }
};

TEST_F(TraceOfRun, NestsMatchesItsMessagesAndHasAllKindsOfSpans) {
  recipe_.parallel.bucket_mib = 1e-4;
  ASSERT_EQ(run(2, "run"), Outcome::finished);
  const Trace trace = read_trace(folder_, {});
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_THAT(trace.missing, IsEmpty());
  EXPECT_EQ(trace.steps.first, 4);
  EXPECT_EQ(trace.steps.last, recorder_.steps.back().step.value);
  EXPECT_GT(trace.clock_error, 0);
  std::set<SpanKind> kinds;
  std::set<std::string> threads;
  for (const auto& rank : trace.ranks) {
    expect_nested(rank);
    for (const auto& span : rank.spans) kinds.insert(span.kind);
    threads.insert(rank.threads.begin(), rank.threads.end());
  }
  expect_whole_steps(trace.ranks[0]);
  EXPECT_EQ(threads, (std::set<std::string>{"train", "sum", "reader", "writer"}));
  EXPECT_EQ(kinds.size(), kSpanKinds - 1) << "all but waits for messages, which only pipelines and the like have";
  const auto messages = match_messages(trace);
  EXPECT_GT(messages.pairs.size(), 0u);
  EXPECT_EQ(messages.unmatched, 0u);
  for (const auto& pair : messages.pairs) {
    const auto& send = trace.ranks[pair.from_rank].spans[pair.send];
    const auto& receive = trace.ranks[pair.to_rank].spans[pair.receive];
    EXPECT_EQ(send.bytes, receive.bytes);
    EXPECT_GE(receive.end + trace.clock_error, send.begin);
  }
}

TEST_F(TraceOfRun, IsThereUpToACrash) {
  crash_at_ = 6;
  EXPECT_THROW(run(2, "run"), std::runtime_error);
  const Trace trace = read_trace(folder_, {});
  EXPECT_EQ(trace.steps, (TracedSteps{4, 6}));
  ASSERT_EQ(trace.ranks.size(), 2u);
  for (const auto& rank : trace.ranks) expect_nested(rank);
  const Trace one = read_trace(folder_, TracedSteps{5, 5});
  EXPECT_EQ(one.steps, (TracedSteps{5, 5}));
  EXPECT_LT(one.ranks[0].spans.size(), trace.ranks[0].spans.size());
  try {
    read_trace(folder_, TracedSteps{7, 9});
    ADD_FAILURE();
  } catch (const StorageError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::incomplete);
    EXPECT_THAT(error.what(), HasSubstr("no whole step of 7:9 in its trace; it has 4:6"));
  }
}

TEST_F(TraceOfRun, OfStagesHasTheWaitsForMessages) {
  recipe_.model = {.name = "mlp", .hidden = {16, 16}};
  recipe_.parallel.pipeline_ranks = 2;
  recipe_.train.epochs = 1;
  ASSERT_EQ(run(2, "run"), Outcome::finished);
  const Trace trace = read_trace(folder_, {});
  const auto waits_for_messages = [](const TraceFile& rank) {
    return std::ranges::any_of(rank.spans, [&](const Recorded& span) {
      return span.kind == SpanKind::message_wait && span.peer == 1 - rank.header.rank;
    });
  };
  for (const auto& rank : trace.ranks) {
    expect_nested(rank);
    EXPECT_TRUE(waits_for_messages(rank)) << rank.header.rank;
  }
  EXPECT_EQ(match_messages(trace).unmatched, 0u);
}

constexpr std::int64_t kMs = 1'000'000;

/// Two ranks whose times are known; the clock of the second is a second ahead. It comes 25 ms later to the sum.
class KnownTrace : public train::Run {
 protected:
  void write(int rank, std::int64_t ahead, std::int64_t computes) {
    const auto recorder = std::make_shared<SpanRecorder>();
    SpanTrack &train = *recorder->add_track("train"), &sum = *recorder->add_track("sum");
    const auto push = [&](SpanTrack& track, std::int64_t begin, std::int64_t end, Span span) {
      span.begin = (1000 + begin) * kMs + ahead;
      span.end = (1000 + end) * kMs + ahead;
      track.push(span);
    };
    const auto phase = [&](RankPhase which, std::int64_t begin, std::int64_t end) {
      push(train, begin, end,
           {.name = name_of(which), .number = static_cast<std::uint32_t>(which), .kind = SpanKind::phase});
    };
    push(train, 0, 20, {.name = "forward", .number = 0, .kind = SpanKind::forward});
    push(train, 20, 50, {.name = "backward", .number = 1, .kind = SpanKind::backward});
    phase(RankPhase::compute, 0, computes);
    phase(RankPhase::reduce, computes, 90);
    phase(RankPhase::update, 90, 100);
    push(train, 0, 100, {.name = "step", .number = 12});
    push(sum, computes, 90, {.name = "all-reduce", .number = 5, .peer = 0, .kind = SpanKind::collective_wait});
    push(sum, computes - 10, 90, {.name = "bucket", .kind = SpanKind::bucket});
    const bool sends = rank == 0;
    push(sum, computes, 90,
         {.name = sends ? "send" : "receive",
          .bytes = 2'000'000,
          .number = 5,
          .peer = 1 - rank,
          .kind = sends ? SpanKind::send : SpanKind::receive});
    TraceWriter writer(folder_ / "trace" / "7" / fmt::format("rank-{:05}.spans", rank),
                       {"7", rank, 2, fmt::format("n{}", rank), {12, 12}, 100, 1000 * kMs + ahead, {"conv1", "fc"}});
    writer.add(ClockOffset{1000 * kMs, ahead, rank == 0 ? 0 : 4000});
    writer.add(train);
    writer.add(sum);
    writer.end();
  }
  void write_both() {
    write(0, 0, 60);
    write(1, 1000 * kMs, 85);
  }
};

/// What was read for the first step began before it.
TEST_F(KnownTrace, HasNoEventBeforeTimeZero) {
  write_both();
  Trace trace = read_trace(folder_, {});
  trace.ranks[1].spans.front().begin -= 5 * kMs;
  double least = 1e9;
  const auto file = nlohmann::json::parse(events_of(trace, folder_));
  for (const auto& event : file["traceEvents"])
    if (event.contains("ts")) least = std::min(least, event["ts"].get<double>());
  EXPECT_DOUBLE_EQ(least, 0);
}

TEST_F(KnownTrace, IsSummarizedByItsTimes) {
  write_both();
  const auto summary = summarize_trace(read_trace(folder_, {}));
  EXPECT_EQ(summary.steps, (TracedSteps{12, 12}));
  EXPECT_NEAR(summary.step_seconds, 0.1, 1e-9);
  EXPECT_NEAR(summary.period_seconds, 0.1, 1e-9);
  EXPECT_DOUBLE_EQ(summary.clock_error_seconds, 4e-6);
  ASSERT_EQ(summary.phases.size(), 3u);
  EXPECT_EQ(summary.phases[0].name, "compute");
  EXPECT_NEAR(summary.phases[0].share, 0.725, 1e-9);
  ASSERT_EQ(summary.layers.size(), 2u);
  EXPECT_EQ(summary.layers[0].name, "fc");
  EXPECT_NEAR(summary.layers[0].seconds, 0.03, 1e-9);
  EXPECT_NEAR(summary.ranks[1].compute_seconds, 0.085, 1e-9);
  EXPECT_NEAR(summary.ranks[1].awaited_seconds, 0.025, 1e-9);
  ASSERT_EQ(summary.waits.size(), 1u);
  EXPECT_EQ(summary.waits[0].rank, 0);
  EXPECT_EQ(summary.waits[0].awaited, 1);
  EXPECT_NEAR(summary.waits[0].seconds, 0.025, 1e-9);
  EXPECT_NEAR(summary.sum_seconds, 0.0275, 1e-9);
  EXPECT_NEAR(summary.exposed_seconds, 0.0175, 1e-9);
  EXPECT_EQ(summary.messages, 1u);
  EXPECT_EQ(summary.message_bytes, 2'000'000u);
  EXPECT_THAT(summary.advice, ElementsAre(HasSubstr("The others wait for rank 1 (n1)")));
  EXPECT_THAT(to_text(summary), HasSubstr("rank 0 for rank 1"));
  EXPECT_THAT(to_text(summary), HasSubstr("1 messages between ranks, 1.9 MiB.\n"));
  EXPECT_NEAR(nlohmann::json::parse(to_json_text(summary))["hidden_share"], 1 - 17.5 / 27.5, 1e-9);
}

/// One of three ranks, which waits for a message of another one in the first milliseconds of its step.
TraceFile rank_that_waits(int rank, int awaited, std::int64_t milliseconds) {
  TraceFile file;
  file.header.rank = rank;
  file.header.ranks = 3;
  file.header.host = fmt::format("n{}", rank);
  file.threads = {"train"};
  file.names = {"span"};
  Recorded wait, step;
  wait.kind = SpanKind::message_wait;
  wait.peer = awaited;
  wait.end = milliseconds * kMs;
  step.number = 12;
  step.end = 100 * kMs;
  file.spans = {wait, step};
  return file;
}

TEST(TraceSummary, BlamesNoRankThatIsLateBecauseItWaitsItself) {
  Trace trace;
  trace.ranks = {rank_that_waits(0, 1, 50), rank_that_waits(1, 2, 45), rank_that_waits(2, 0, 0)};
  const auto summary = summarize_trace(trace);
  ASSERT_EQ(summary.ranks.size(), 3u);
  EXPECT_NEAR(summary.ranks[1].awaited_seconds, 0.05, 1e-9) << "most of all";
  EXPECT_NEAR(summary.ranks[1].net_awaited_seconds(), 0.005, 1e-9);
  EXPECT_NEAR(summary.ranks[2].net_awaited_seconds(), 0.045, 1e-9);
  EXPECT_THAT(summary.advice, ElementsAre(HasSubstr("The others wait for rank 2 (n2)")));
  const auto ranks = nlohmann::json::parse(to_json_text(summary))["ranks"];
  EXPECT_NEAR(ranks[0]["net_awaited_seconds"].get<double>(), -0.05, 1e-9);
  trace.ranks = {rank_that_waits(0, 1, 50), rank_that_waits(1, 2, 50), rank_that_waits(2, 0, 50)};
  EXPECT_THAT(summarize_trace(trace).advice, ElementsAre(Not(HasSubstr("The others wait"))));
}

TEST(TraceSummary, ShowsNoControlCharactersOfNames) {
  TraceSummary summary;
  summary.phases = {{"compute\033[2J", 0.1, 1}};
  summary.layers = {{"conv1\r", 0.1, 1}};
  summary.ranks = {{0, "n0", 0.1, 0, 0}};
  const auto text = to_text(summary);
  EXPECT_THAT(text, ::testing::AllOf(HasSubstr("compute\\x1b[2J"), HasSubstr("conv1\\r")));
  EXPECT_EQ(text.find_first_of("\033\r"), std::string::npos);
}

TEST_F(KnownTrace, BecomesEventsThatViewersRead) {
  write_both();
  std::ofstream(folder_ / "journal.jsonl") << R"({"event":"failure","cause":"rank \"lost\"","time":100.05})" << '\n'
                                           << R"({"event":"stopped","time":500})" << '\n';
  const auto trace = read_trace(folder_, {});
  const auto all = nlohmann::json::parse(events_of(trace, folder_));
  std::map<std::string, int> count;
  std::map<std::string, nlohmann::json> sample;
  for (const auto& event : all["traceEvents"]) {
    const auto phase = event["ph"].get<std::string>();
    ++count[phase], sample[phase] = event;
    EXPECT_TRUE(event.contains("pid") && event.contains("tid") && event.contains("name")) << event;
    if (phase == "X") {
      EXPECT_GE(event["ts"], 0);
      EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(), 100e3);
    }
  }
  EXPECT_EQ(count["X"], 16);
  EXPECT_EQ(count["s"], 1);
  EXPECT_EQ(count["f"], 1);
  EXPECT_EQ(count["b"], 2);
  EXPECT_EQ(count["e"], 2);
  EXPECT_EQ(count["i"], 1);
  EXPECT_EQ(sample["i"]["name"], "failure: rank \"lost\"");
  EXPECT_NEAR(sample["i"]["ts"], 50e3, 1);
  EXPECT_EQ(sample["s"]["id"], sample["f"]["id"]);
  EXPECT_EQ(sample["s"]["pid"], 0);
  EXPECT_EQ(sample["f"]["pid"], 1);
  EXPECT_LE(sample["s"]["ts"], sample["f"]["ts"]);
}

TEST_F(KnownTrace, SaysWhatIsMissing) {
  write_both();
  const auto other = folder_ / "trace" / "7" / "rank-00001.spans";
  std::filesystem::resize_file(other, std::filesystem::file_size(other) - 10);
  auto summary = summarize_trace(read_trace(folder_, {}));
  EXPECT_THAT(summary.torn, ElementsAre(1));
  EXPECT_EQ(summary.unmatched, 1u) << "the receive was last";
  EXPECT_THAT(to_text(summary), HasSubstr("The file of rank 1 ends in the middle"));
  std::filesystem::resize_file(other, 10);
  summary = summarize_trace(read_trace(folder_, {}));
  EXPECT_THAT(summary.missing, ElementsAre(1));
  EXPECT_EQ(summary.unmatched, 0u);
  EXPECT_THAT(to_text(summary), HasSubstr("There is no file of rank 1"));
  std::filesystem::copy_file(folder_ / "trace" / "7" / "rank-00000.spans", other,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THROW(read_trace(folder_, {}), StorageError) << "twice the same rank";
  std::filesystem::remove_all(folder_ / "trace");
  EXPECT_THROW(read_trace(folder_, {}), StorageError);
}
}  // namespace
}  // namespace distdl::observe
