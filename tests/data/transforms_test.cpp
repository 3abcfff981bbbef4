// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <gmock/gmock.h>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {

TEST(RandomResizedCrop, HasTheRangesOfTorchvision) {
  double least = 1, most = 0, widest = 0, tallest = 0;
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    Draws draws(1, 2, 3, sample);
    const Frame frame = random_crop(draws, 0.08, 500, 375, 224);
    EXPECT_GE(frame.left, 0);
    EXPECT_GE(frame.top, 0);
    EXPECT_LE(frame.left + frame.width, 500);
    EXPECT_LE(frame.top + frame.height, 375);
    EXPECT_EQ(frame.resized_width, 224);
    const double area = frame.width * frame.height / (500 * 375);
    least = std::min(least, area), most = std::max(most, area);
    widest = std::max(widest, frame.width / frame.height), tallest = std::max(tallest, frame.height / frame.width);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_NEAR(most, 1, 0.02);
  EXPECT_NEAR(widest, 4.0 / 3, 0.02);
  EXPECT_NEAR(tallest, 4.0 / 3, 0.02);
}

TEST(RandomResizedCrop, TakesTheCentreOfWhatIsTooLong) {
  Draws draws(1, 2, 3, 4);
  const Frame wide = random_crop(draws, 1, 1000, 30, 8), tall = random_crop(draws, 1, 30, 1000, 8);
  EXPECT_THAT((std::array{wide.left, wide.top, wide.width, wide.height}), testing::ElementsAre(480, 0, 40, 30));
  EXPECT_THAT((std::array{tall.left, tall.top, tall.width, tall.height}), testing::ElementsAre(0, 480, 30, 40));
}

TEST(Transforms, HaveNamesAndStreamsOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<std::uint64_t> streams;
  for (const Transform& each : transforms()) names.insert(each.name), streams.insert(each.stream);
  EXPECT_EQ(names.size(), transforms().size());
  EXPECT_EQ(streams.size(), transforms().size());
  Draws once(7, 1, 2, 3), again(7, 1, 2, 3), other(7, 1, 2, 4);
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const auto bits = once.bits();
    EXPECT_EQ(bits, again.bits());
    same += bits == other.bits();
  }
  EXPECT_EQ(same, 0);
}

}  // namespace
}  // namespace distdl::data
