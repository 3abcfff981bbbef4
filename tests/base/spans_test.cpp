// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/spans.hpp>

namespace distdl {
namespace {
std::vector<Span> drained(SpanRecorder& recorder) {
  std::vector<Span> all;
  for (SpanTrack* const track : recorder.tracks()) track->drain([&](const Span& span) { all.push_back(span); });
  return all;
}

TEST(Spans, AreNotRecordedByAThreadWithoutARecorderOrWhileItIsOff) {
  { const TimedSpan span(SpanKind::forward, "forward"); }
  EXPECT_EQ(recorder_of_this_thread(), nullptr);
  const auto recorder = std::make_shared<SpanRecorder>();
  {
    const RecordedThread recorded(recorder, "train");
    EXPECT_EQ(recorder_of_this_thread(), recorder);
    const TimedSpan span(SpanKind::forward, "forward");
    EXPECT_FALSE(span.is_recorded());
    EXPECT_EQ(begin_of_span(), 0);
  }
  EXPECT_EQ(recorder_of_this_thread(), nullptr);
  EXPECT_TRUE(drained(*recorder).empty());
}

TEST(Spans, HaveWhatTheyWereGivenAndEndInTheirOrder) {
  const auto recorder = std::make_shared<SpanRecorder>();
  const RecordedThread recorded(recorder, "train");
  recorder->set_on(true);
  {
    const TimedSpan outer(SpanKind::bucket, "bucket", 7, 80);
    TimedSpan inner(SpanKind::message_wait, "send", 3);
    inner.set_peer(2, 5);
  }
  const auto spans = drained(*recorder);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].kind, SpanKind::message_wait);
  EXPECT_EQ(spans[0].peer, 2);
  EXPECT_EQ(spans[0].group, 5);
  EXPECT_EQ(spans[1].number, 7u);
  EXPECT_EQ(spans[1].bytes, 80u);
  EXPECT_LE(spans[1].begin, spans[0].begin);
  EXPECT_LE(spans[0].end, spans[1].end);
}

TEST(Spans, OfPhasesFollowEachOtherWithoutGapsAndAreSplitWhereAsked) {
  const auto recorder = std::make_shared<SpanRecorder>();
  const RecordedThread recorded(recorder, "train");
  enter_phase(RankPhase::report);
  recorder->set_on(true);
  span_track->split_phase();
  const auto middle = span_track->split_phase();
  enter_phase(RankPhase::compute);
  enter_phase(RankPhase::idle);
  enter_phase(RankPhase::data);
  recorder->set_on(false);
  EXPECT_EQ(span_track->split_phase(), 0);
  enter_phase(RankPhase::compute);
  const auto spans = drained(*recorder);
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_STREQ(spans[0].name, name_of(RankPhase::report));
  EXPECT_EQ(spans[0].end, middle);
  EXPECT_EQ(spans[1].begin, middle);
  EXPECT_EQ(spans[1].end, spans[2].begin);
  EXPECT_EQ(spans[2].number, static_cast<std::uint32_t>(RankPhase::compute));
  EXPECT_STREQ(spans[3].name, name_of(RankPhase::data));
}

TEST(Spans, ThatDoNotFitAreCountedAndMakeNoRoomForThemselves) {
  const auto recorder = std::make_shared<SpanRecorder>();
  SpanTrack& track = *recorder->add_track("train");
  for (std::uint32_t i = 0; i < SpanTrack::kCapacity + 3; ++i) track.push({.number = i});
  EXPECT_EQ(track.lost(), 3u);
  EXPECT_TRUE(recorder->any_is_full_to_a_quarter());
  const auto spans = drained(*recorder);
  ASSERT_EQ(spans.size(), SpanTrack::kCapacity);
  EXPECT_EQ(spans.back().number, SpanTrack::kCapacity - 1);
  EXPECT_FALSE(recorder->any_is_full_to_a_quarter());
  for (std::size_t i = 1; i < SpanRecorder::kMostTracks; ++i) EXPECT_NE(recorder->add_track("more"), nullptr);
  EXPECT_EQ(recorder->add_track("one too many"), nullptr);
}

TEST(Spans, AreReadByOneThreadWhileAnotherWritesThem) {
  constexpr std::uint32_t kSpans = 100'000;
  const auto recorder = std::make_shared<SpanRecorder>();
  recorder->set_on(true);
  SpanTrack& track = *recorder->add_track("sum");
  std::vector<std::uint32_t> numbers;
  {
    const std::jthread writer([&] {
      for (std::uint32_t i = 0; i < kSpans; ++i) track.push({.begin = i, .end = i, .number = i});
    });
    while (numbers.size() + track.lost() < kSpans)
      track.drain([&](const Span& span) {
        EXPECT_EQ(span.begin, span.number);
        numbers.push_back(span.number);
      });
  }
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(numbers.size() + track.lost(), kSpans);
}

TEST(Spans, OpenAndCloseRangesOfAnotherTool) {
  static int depth = 0, deepest = 0;
  set_span_ranges({[](const char*) { deepest = std::max(deepest, ++depth); }, [] { --depth; }});
  const auto recorder = std::make_shared<SpanRecorder>();
  {
    const RecordedThread recorded(recorder, "train");
    { const TimedSpan off(SpanKind::forward, "forward"); }
    EXPECT_EQ(deepest, 0);
    recorder->set_on(true);
    const TimedSpan outer(SpanKind::forward, "forward"), inner(SpanKind::copy, "copy");
  }
  set_span_ranges({});
  EXPECT_EQ(deepest, 2);
  EXPECT_EQ(depth, 0);
}
}  // namespace
}  // namespace distdl
