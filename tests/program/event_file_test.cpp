// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "event_bytes.hpp"
#include <distdl/program/event_file.hpp>

namespace distdl::program {
namespace {
using testing::ElementsAre;
using testing::Pair;

TEST(EventFile, HasStepsAndScalars) {
  std::vector<EventScalars> seen;
  const auto bytes = record_of(
                         "\x1a\x0d"
                         "brain.Event:2") +
                     record_of(event_of(7, "eval/loss", 0.5F)) + record_of(event_of(300, "lr", 1e-3F)) + "\x01\x02";
  const auto done = read_events(bytes, [&](const EventScalars& event) { seen.push_back(event); });
  EXPECT_EQ(done, bytes.size() - 2) << "the rest is not whole yet";
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].step, 7);
  EXPECT_THAT(seen[0].values, ElementsAre(Pair("eval_loss", 0.5)));
  EXPECT_EQ(seen[1].step, 300);
}

TEST(EventFile, ALargeRecordIsPassedOver) {
  const auto bytes = record_of(std::string(3 << 20, 'x')) + record_of(event_of(1, "a", 1));
  const auto done = read_events(std::string_view(bytes).substr(0, 100), [](const EventScalars&) { FAIL(); });
  ASSERT_EQ(done, (3U << 20) + 16);
  int count = 0;
  read_events(std::string_view(bytes).substr(*done), [&](const EventScalars&) { ++count; });
  EXPECT_EQ(count, 1);
}

TEST(EventFile, ADamagedRecordCountsForNothingAndADamagedLengthEndsIt) {
  const auto first = record_of(event_of(1, "a", 1)), second = record_of(event_of(2, "a", 1));
  std::vector<std::int64_t> steps;
  const auto read = [&](const std::string& bytes) {
    steps.clear();
    return read_events(bytes, [&](const EventScalars& event) { steps.push_back(event.step); });
  };
  auto bytes = first + second;
  bytes[14] ^= 1;  // in the data
  EXPECT_EQ(read(bytes), bytes.size());
  EXPECT_THAT(steps, ElementsAre(2));
  bytes = first + second;
  bytes[first.size()] ^= 1;
  EXPECT_FALSE(read(bytes));
  EXPECT_FALSE(read("this is no event file"));
  EXPECT_EQ(read(""), 0U);
}

TEST(EventFile, AnyBytesAreReadOrRefused) {
  const std::string message = event_of(300, "eval/loss", 0.5F), file = record_of(message) + record_of(message);
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same each time
  const auto changed = [&](const std::string& whole) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (auto changes = random() % 4; !text.empty() && changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string text = changed(message), bytes = i % 2 == 0 ? record_of(text) : changed(file);
    const auto scalars = scalars_of(text);
    EXPECT_TRUE(!scalars || !scalars->values.empty());
    const auto done = read_events(bytes, [](const EventScalars&) {});
    EXPECT_TRUE(!done || *done <= bytes.size() || *done > kLargestEvent);
  }
}
}  // namespace
}  // namespace distdl::program
