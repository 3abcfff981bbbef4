// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/app/plan/step_drawing.hpp>

namespace distdl::app {
namespace {
namespace pipeline = parallel::pipeline;
using testing::HasSubstr;

PlannedStep planned(const char* algorithm, const pipeline::Shape& shape) {
  auto schedule = pipeline::make_schedule(algorithm, shape);
  const pipeline::Costs costs{std::vector<pipeline::StageCosts>(static_cast<std::size_t>(shape.stages())), 0};
  auto timeline = pipeline::simulate(schedule, costs);
  return {std::move(schedule), std::move(timeline)};
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t first = 0; first < text.size();) {
    const auto end = std::min(text.find('\n', first), text.size());
    longest = std::max(longest, end - first);
    first = end + 1;
  }
  return longest;
}

TEST(StepChart, ShowsWhenEachRankDoesWhat) {
  const auto chart = step_chart(planned("1f1b", {2, 2}), 100, false);
  EXPECT_THAT(chart, HasSubstr("   0  F0--F1--........B0======....B1======   33.3%            2\n"));
  EXPECT_THAT(chart, HasSubstr("   1  ....F0--B0======F1--B1======........   33.3%            1\n"));
  EXPECT_THAT(chart, testing::Not(HasSubstr("\033")));
  EXPECT_THAT(step_chart(planned("1f1b", {2, 2}), 100, true), HasSubstr("\033[30;46mF0--\033[0m"));
  EXPECT_THAT(step_chart(planned("interleaved", {2, 2, 2}), 100, false), HasSubstr("0  F0a-F1a-F0b-F1b-"));
  EXPECT_THAT(step_chart(planned("zero-bubble", {2, 2}), 100, false), HasSubstr("F0--F1--....B0==W0~~B1==W1~~"));
}

TEST(StepChart, FitsTheWidth) {
  for (const auto& row : pipeline::kAlgorithms)
    for (int microbatches : {1, 5, 16, 300})
      for (int width : {60, 80, 133})
        EXPECT_LE(longest_line(step_chart(planned(row.name.data(), {4, microbatches}), width, false)),
                  static_cast<std::size_t>(width))
            << row.name << ", " << microbatches << " microbatches";
}

TEST(StepDrawing, DrawsEachOperationOfEachStep) {
  const auto svg = draw_steps({planned("gpipe", {2, 3}), planned("zero-bubble", {2, 3})});
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (auto at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("class=\"f\""), 2 * 6 + 1u) << "one is the legend's";
  EXPECT_EQ(count("class=\"b\""), 2 * 6 + 1u);
  EXPECT_EQ(count("class=\"w\""), 6 + 1u);
  EXPECT_EQ(count("<g "), count("</g>"));
  EXPECT_THAT(svg, HasSubstr("gpipe: step 12, bubble 25.0%, at most 3 activations"));
  for (const char* wrong : {"nan", "inf"}) EXPECT_THAT(svg, testing::Not(HasSubstr(wrong)));
}
}  // namespace
}  // namespace distdl::app
