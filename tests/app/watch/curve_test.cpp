// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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

std::vector<std::string> chart(const std::vector<CurvePoint>& points, const ChartLook& look) {
  const ChartSeries series{points};
  return draw_chart(std::span(&series, 1), look);
}

TEST(Charts, RiseFromTheLowerLeftToTheUpperRight) {
  const std::vector<CurvePoint> rising{{0, 0}, {10, 1}};
  EXPECT_THAT(chart(rising, {4, 2, false}), ElementsAre("  .:", ".:' "));
  EXPECT_THAT(chart(rising, {2, 1, true}), ElementsAre("⣠⠞"));
  EXPECT_THAT(chart(rising, {20, 2, false}), ElementsAre("   1.00       ....:'", "      0 ..:''''     "));
}

TEST(Charts, HaveTheFirstAndTheLastStepBelow) {
  EXPECT_THAT(chart({{100, 0}, {1100, 1}}, {22, 4, false}),
              testing::Contains(testing::StrEq("        step 100  1100")));
}

/// The exponent of 7,080 was cut off: "7.08e+0".
TEST(Charts, HaveLabelsOfTheRightSize) {
  const auto labels = [](double least, double most) {
    const auto lines = chart({{0, least}, {1, most}}, {30, 4, false});
    return lines.front().substr(0, 7) + "|" + lines[2].substr(0, 7);
  };
  EXPECT_EQ(labels(6900, 7080), "   7080|   6900");
  EXPECT_EQ(labels(0, 12'345'678), "  12.3M|      0");
  EXPECT_EQ(labels(69'000, 71'000), " 71.00k| 69.00k");
  EXPECT_EQ(labels(-2.5e-5, 1e-6), "1.0e-06| -3e-05");
  EXPECT_EQ(labels(1.8401, 1.8403), "1.84030|1.84010");
  EXPECT_EQ(labels(-1e300, 1e300), " 1e+300|-1e+300");
}

TEST(Charts, JoinPointsThatAreFarApart) {
  const auto lines = chart({{0, 0}, {3, 0}, {4, 1}, {7, 1}}, {16, 8, true});
  for (const auto& line : lines) EXPECT_NE(line, std::string(16, ' '));  // no row is crossed without a dot
}

TEST(Charts, OfTwoSeriesShareTheirRange) {
  const std::vector<CurvePoint> training{{0, 1}, {10, 1}}, validation{{5, 0}, {6, 0}};
  const std::vector<ChartSeries> both{{training, Colour::green}, {validation, Colour::yellow}};
  EXPECT_THAT(draw_chart(both, {11, 2, false}), ElementsAre("'''''''''''", "     oo    "));
  EXPECT_THAT(draw_chart(both, {11, 2, false, true}),
              ElementsAre(coloured("'''''''''''", Colour::green), "     " + coloured("oo    ", Colour::yellow)));
}

TEST(Charts, AreDrawnOfWhateverThereIs) {
  EXPECT_THAT(chart({}, {3, 2, true}), ElementsAre("   ", "   "));
  EXPECT_TRUE(chart({{1, 1}}, {3, 0, true}).empty());
  EXPECT_THAT(chart({{1, 1}}, {0, 1, true}), ElementsAre(""));
  const double nan = std::nan("");
  EXPECT_THAT(chart({{1, nan}}, {3, 1, true}), ElementsAre("   "));
  for (const auto& points : std::vector<std::vector<CurvePoint>>{
           {{5, 7}}, {{5, 0}, {6, 0}}, {{1, -1e300}, {2, 1e300}}, {{1, nan}, {2, 1}}, {{1, -1.7e308}, {2, 1.7e308}}})
    for (const auto& line : chart(points, {30, 4, true})) EXPECT_EQ(width_of(line), 30);
}
}  // namespace
}  // namespace distdl::app
