// SPDX-License-Identifier: Apache-2.0
// What a rank records while it trains, and the file in which it keeps it.
#include <limits>

#include <gmock/gmock.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/train/trace_file.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;

TEST(TracedSteps, AreReadFromTextAndWhatIsNoneIsRefused) {
  EXPECT_EQ(traced_steps_from("3:7", "log.trace"), (TracedSteps{3, 7}));
  EXPECT_EQ(traced_steps_from("5", "log.trace"), (TracedSteps{5, 5}));
  EXPECT_EQ(traced_steps_or_off("off", "log.trace"), std::nullopt);
  for (const char* text :
       {"", ":", "0:3", "7:3", "a:b", "3:", ":3", "3:4:5", "1.5", "on", "-1:2", "99999999999999999999"}) {
    try {
      traced_steps_or_off(text, "log.trace");
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("log.trace is \"{}\"", text)));
    }
  }
}

class TraceFiles : public Run {
 protected:
  std::filesystem::path file() const { return folder_ / "trace" / "1" / "rank-00000.spans"; }
  TraceHeader header() const { return {"1", 0, 2, "n1", {1, 9}, 12.5, 77, {"conv1", "loss"}}; }
  /// Ten spans in one thread.
  void write(std::size_t most_bytes = TraceWriter::kMostBytes) {
    const auto recorder = std::make_shared<SpanRecorder>();
    SpanTrack& track = *recorder->add_track("train");
    std::filesystem::remove(file());
    TraceWriter writer(file(), header(), most_bytes);
    writer.add(ClockOffset{5, -20, 3});
    for (std::uint32_t i = 0; i < 10; ++i) {
      track.push({10 * i, 10 * i + 4, i % 2 ? "send" : "step", 8, i, 1, i % 2 ? SpanKind::send : SpanKind::step, 3});
      writer.add(track);
    }
    writer.end();
  }
  std::string bytes() const { return read_regular(file(), 1 << 20); }
  void rewrite(const std::string& bytes) { std::ofstream(file(), std::ios::binary) << bytes; }
  void expect_error(ExitCode code, const std::string& about) {
    try {
      read_trace_file(file());
      ADD_FAILURE() << "no error about " << about;
    } catch (const StorageError& error) {
      EXPECT_EQ(error.exit_code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(about));
      EXPECT_THAT(error.what(), HasSubstr(file().string()));
    }
  }
};

TEST_F(TraceFiles, HaveWhatWasWritten) {
  write();
  const auto trace = read_trace_file(file());
  EXPECT_EQ(trace.header.host, "n1");
  EXPECT_EQ(trace.header.steps, (TracedSteps{1, 9}));
  EXPECT_EQ(trace.header.layers, (std::vector<std::string>{"conv1", "loss"}));
  EXPECT_EQ(trace.threads, std::vector<std::string>{"train"});
  ASSERT_EQ(trace.offsets.size(), 1u);
  EXPECT_EQ(trace.offsets[0].offset, -20);
  ASSERT_EQ(trace.spans.size(), 10u);
  EXPECT_EQ(trace.spans[3].begin, 30);
  EXPECT_EQ(trace.spans[3].end, 34);
  EXPECT_EQ(trace.spans[3].kind, SpanKind::send);
  EXPECT_EQ(trace.spans[3].group, 3);
  EXPECT_EQ(trace.name(trace.spans[3]), "send");
  EXPECT_EQ(trace.lost, 0u);
  EXPECT_FALSE(trace.is_torn);
}

TEST_F(TraceFiles, AreReadUpToTheLastWholeRecordAfterACrash) {
  write();
  const auto whole = bytes();
  for (std::size_t missing : {1, 20, 47, 48}) {
    rewrite(whole.substr(0, whole.size() - missing));
    const auto trace = read_trace_file(file());
    EXPECT_EQ(trace.spans.size(), 9u);
    EXPECT_EQ(trace.is_torn, missing != 48);
  }
  rewrite(whole + std::string(1000, '\0'));  // as a file system may leave it
  EXPECT_EQ(read_trace_file(file()).spans.size(), 10u);
  EXPECT_TRUE(read_trace_file(file()).is_torn);
  auto half = whole;
  half[half.size() - 40] ^= 1;
  rewrite(half);
  EXPECT_EQ(read_trace_file(file()).spans.size(), 9u);
}

TEST_F(TraceFiles, ThatAreDamagedOrOfAnotherVersionAreRefusedWithTheReason) {
  write();
  const auto whole = bytes();
  auto damaged = whole;
  damaged[whole.size() - 5 * 48] ^= 4;
  rewrite(damaged);
  expect_error(ExitCode::corrupt, "the checksum of a record is wrong");
  auto other = whole;
  other.replace(other.find("\"distdl_trace\":1"), 16, "\"distdl_trace\":7");
  rewrite(other);
  expect_error(ExitCode::incompatible, "has version 7");
  rewrite("{\"distdl_trace\":1,\"start\":");
  expect_error(ExitCode::incomplete, "no whole header");
  rewrite("what is this\n");
  expect_error(ExitCode::corrupt, "damaged at byte 0");
  rewrite(
      "{\"distdl_trace\":1,\"start\":\"1\",\"rank\":4,\"ranks\":2,\"host\":\"\",\"time\":0,\"clock\":0,\"layers\":[]}"
      "\n");
  expect_error(ExitCode::corrupt, "rank 4 of 2");
  other = whole;
  other.replace(other.find("\"clock\":77"), 10, "\"clock\":-7");
  rewrite(other);
  expect_error(ExitCode::corrupt, "an impossible time");
}

TEST_F(TraceFiles, WithTimesThatNoClockHasAreRefused) {
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min(),
                         kLast = std::numeric_limits<std::int64_t>::max();
  const auto write_one = [&](const ClockOffset& offset, std::int64_t begin, std::int64_t end) {
    std::filesystem::remove(file());
    const auto recorder = std::make_shared<SpanRecorder>();
    SpanTrack& track = *recorder->add_track("train");
    track.push({.begin = begin, .end = end, .name = "step"});
    TraceWriter writer(file(), header());
    writer.add(offset);
    writer.add(track);
    writer.end();
  };
  for (const auto& [begin, end] : {std::pair(kFirst, kLast), {0, kLast}, {kFirst, 0}}) {
    write_one({}, begin, end);
    expect_error(ExitCode::corrupt, "a span has an impossible time");
  }
  for (const ClockOffset& offset : {ClockOffset{kFirst}, ClockOffset{0, kFirst}, ClockOffset{0, 0, -1}}) {
    write_one(offset, 1, 2);
    expect_error(ExitCode::corrupt, "an impossible offset of the clock");
  }
}

TEST_F(TraceFiles, GrowNoFurtherThanAllowedAndTellWhatIsMissing) {
  write(700);
  const auto trace = read_trace_file(file());
  EXPECT_GT(trace.lost, 0u);
  EXPECT_EQ(trace.spans.size() + trace.lost, 10u);
  EXPECT_LE(bytes().size(), 700u + 48);
}

/// The spans of a thread come in the order of their ends. One that ends later has those before in it, or begins after
/// their ends.
void expect_spans_nest(const TraceFile& rank) {
  for (std::size_t thread = 0; thread < rank.threads.size(); ++thread) {
    std::vector<TraceFile::Recorded> before;  // that no later span has in it
    std::int64_t newest_end = 0;
    for (const auto& span : rank.spans) {
      if (span.thread != thread || !nests(span.kind)) continue;
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(newest_end, span.end) << rank.name(span) << " in " << rank.threads[thread];
      newest_end = span.end;
      while (!before.empty() && before.back().begin >= span.begin) before.pop_back();
      if (!before.empty()) {
        EXPECT_LE(before.back().end, span.begin)
            << rank.name(before.back()) << " and " << rank.name(span) << " in " << rank.threads[thread];
      }
      before.push_back(span);
    }
  }
}

TEST_F(Run, TracingLeavesTheBytesOfARunAndRecordsTheStepsThatWereAskedFor) {
  shared_memory_ranks_ = 1;
  const auto plain = digest_of(2, "plain");
  trace_ = TraceSetting{folder_ / "trace", {3, 6}};
  EXPECT_EQ(digest_of(2, "traced"), plain);
  std::vector<TraceFile> ranks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "trace"))
    if (entry.is_regular_file()) ranks.push_back(read_trace_file(entry.path()));
  ASSERT_EQ(ranks.size(), 2u);
  for (const auto& rank : ranks) {
    std::vector<std::uint32_t> steps;
    for (const auto& span : rank.spans)
      if (span.kind == SpanKind::step) steps.push_back(span.number);
    EXPECT_EQ(steps, (std::vector<std::uint32_t>{3, 4, 5, 6}));
    EXPECT_EQ(rank.offsets.size(), 2u) << "at both ends";
    EXPECT_EQ(rank.lost, 0u);
    expect_spans_nest(rank);
    EXPECT_EQ(rank.header.layers.back(), "loss");
  }
}

TEST_F(Run, TracingThatCannotWriteItsFileDoesNotEndTheRun) {
  std::ofstream(folder_ / "no_folder") << "a file";
  trace_ = TraceSetting{folder_ / "no_folder", {2, 3}};
  EXPECT_EQ(run(2, "goes_on"), Outcome::finished);
}
}  // namespace
}  // namespace distdl::train
