// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/parallel/compression_choice.hpp>

namespace distdl::parallel {
namespace {
using enum Compression;
const std::vector<CompressionChoice::Candidate> kCandidates{{none, 400, 0}, {bf16, 200, 0.002}, {int8, 100, 0.004}};

/// What the sums of a step take, at so many bytes per second.
double seconds(Compression compression, double bandwidth) {
  for (const auto& each : kCandidates)
    if (each.compression == compression) return each.codec_seconds + each.bytes / bandwidth;
  return 0;
}

TEST(CompressionChoice, TakesACodecWhereTheNetworkIsSlow) {
  for (const auto& [bandwidth, best] : {std::pair(1e3, int8), std::pair(7e4, bf16), std::pair(1e6, none)}) {
    CompressionChoice choice(kCandidates);
    EXPECT_EQ(choice.present(), none);
    const auto decide = [&, bytes_per_second = bandwidth] {
      const double now = seconds(choice.present(), bytes_per_second);
      return choice.decide(now, now);
    };
    for (int i = 0; i < 4; ++i) decide();
    EXPECT_EQ(choice.present(), best) << bandwidth;
    EXPECT_FALSE(decide());
  }
}

TEST(CompressionChoice, FollowsTheNetwork) {
  CompressionChoice choice(kCandidates);
  EXPECT_TRUE(choice.decide(seconds(none, 1e3), seconds(none, 1e3)));
  EXPECT_THAT(choice.times(), ::testing::HasSubstr("none 400 ms, bf16 202 ms predicted, int8 104 ms predicted"));
  choice.decide(seconds(int8, 1e3), seconds(int8, 1e3));
  EXPECT_TRUE(choice.decide(seconds(int8, 1e6), seconds(int8, 1e6)));
  EXPECT_EQ(choice.present(), none);
}

TEST(CompressionChoice, WhatIsMeasuredCountsMoreThanWhatIsPredicted) {
  CompressionChoice choice(kCandidates);  // latency alone: no codec makes anything faster
  EXPECT_TRUE(choice.decide(0.1, 0.1));
  for (int i = 0; i < 5; ++i) {
    const double now = choice.present() == none ? 0.1 : 0.14;
    choice.decide(now, now);
  }
  EXPECT_EQ(choice.present(), none);
  EXPECT_FALSE(choice.decide(0.1, 0.1));
}

TEST(CompressionChoice, WhatTheBackwardPassHidesNeedsNoCodec) {
  CompressionChoice choice(kCandidates);
  EXPECT_FALSE(choice.decide(0.1, 0.001));
  EXPECT_TRUE(choice.decide(0.4, 0.3));  // of which it hides 100 ms, as much as bf16 and int8 take
  EXPECT_EQ(choice.present(), int8);
}
}  // namespace
}  // namespace distdl::parallel
