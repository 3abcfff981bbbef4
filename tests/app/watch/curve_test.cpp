// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/app/watch/curve.hpp>
#include <distdl/base/console.hpp>

namespace distdl::app {
namespace {
using testing::ElementsAre;

std::vector<std::int64_t> steps(const Curve& curve) {
  std::vector<std::int64_t> steps;
  for (const auto& point : curve.points()) steps.push_back(point.step);
  return steps;
}

TEST(Curves, HaveOnlyTheStepsThatLasted) {
  Curve curve;
  for (const int step : {1, 2, 3, 4, 3, 4, 5}) curve.add(step, step);
  EXPECT_THAT(steps(curve), ElementsAre(1, 2, 3, 4, 5));
}

TEST(Curves, OfVeryManyStepsStaySmallAndEndWithTheNewest) {
  Curve curve;
  for (int step = 1; step <= 1'000'000; ++step) curve.add(step, step);
  EXPECT_LE(curve.points().size(), 4097u);
  EXPECT_GE(curve.points().size(), 1000u);
  EXPECT_EQ(curve.points().front().step, 1);
  EXPECT_EQ(curve.points().back().step, 1'000'000);
  for (std::size_t i = 1; i < curve.points().size(); ++i) ASSERT_LT(curve.points()[i - 1].step, curve.points()[i].step);
}

TEST(Charts, RiseFromTheLowerLeftToTheUpperRight) {
  const std::vector<CurvePoint> rising{{0, 0}, {10, 1}};
  EXPECT_THAT(draw_chart(rising, {4, 2, false}), ElementsAre("  .'", ".'  "));
  EXPECT_THAT(draw_chart(rising, {2, 1, true}), ElementsAre("⡠⠊"));
  EXPECT_THAT(draw_chart(rising, {20, 2, false}), ElementsAre("      1       ....''", "      0 ..''''      "));
}

TEST(Charts, AreDrawnOfWhateverThereIs) {
  EXPECT_THAT(draw_chart({}, {3, 2, true}), ElementsAre("   ", "   "));
  EXPECT_TRUE(draw_chart({{1, 1}}, {3, 0, true}).empty());
  EXPECT_THAT(draw_chart({{1, 1}}, {0, 1, true}), ElementsAre(""));
  for (const auto& points : std::vector<std::vector<CurvePoint>>{{{5, 7}}, {{5, 0}, {6, 0}}, {{1, -1e300}, {2, 1e300}}})
    for (const auto& line : draw_chart(points, {30, 4, true})) EXPECT_EQ(width_of(line), 30);
}
}  // namespace
}  // namespace distdl::app
