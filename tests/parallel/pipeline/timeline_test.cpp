// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/pipeline/shapes.hpp"
#include <distdl/parallel/pipeline/timeline.hpp>

namespace distdl::parallel::pipeline {
namespace {
using testing::ElementsAre;

/// The bubble that the algorithm's paper promises, where all costs of a stage are equal and transfers take no time. For
/// interleaved stages the microbatches must be a multiple of the ranks, and for zero_bubble at least as many.
double promised_bubble(Algorithm algorithm, const Shape& shape) {
  // Without bubble, a step takes so many times what the pipeline's last rank waits for each rank before it.
  const int work = shape.microbatches * (algorithm == Algorithm::zero_bubble ? 3 : shape.interleave);
  return static_cast<double>(shape.ranks - 1) / (work + shape.ranks - 1);
}

Costs equal_costs(const Shape& shape, double transfer = 0) {
  return {std::vector<StageCosts>(static_cast<std::size_t>(shape.stages())), transfer};
}

/// Whether the papers' formulas speak of it.
bool has_formula(Algorithm algorithm, const Shape& shape) {
  if (algorithm == Algorithm::interleaved) return shape.microbatches % shape.ranks == 0;
  return algorithm != Algorithm::zero_bubble || shape.microbatches >= shape.ranks;
}

TEST(PipelineTimeline, BubbleIsThatOfTheFormula) {
  for_each_shape([](Algorithm algorithm, const Shape& shape) {
    const auto line = simulate(make_schedule(algorithm, shape), equal_costs(shape));
    EXPECT_NEAR(line.seconds * (1 - line.bubble()), 3.0 * shape.microbatches * shape.interleave, 1e-9);
    // Elsewhere the bubble is larger.
    const double promised = promised_bubble(algorithm, shape), most = has_formula(algorithm, shape) ? promised : 1;
    EXPECT_GE(line.bubble(), promised - 1e-9) << text_of(algorithm, shape);
    EXPECT_LE(line.bubble(), most + 1e-9) << text_of(algorithm, shape);
  });
  EXPECT_DOUBLE_EQ(promised_bubble(Algorithm::gpipe, {4, 12}), 0.2);
  EXPECT_DOUBLE_EQ(promised_bubble(Algorithm::one_f_one_b, {4, 12}), 0.2);
  EXPECT_DOUBLE_EQ(promised_bubble(Algorithm::interleaved, {4, 12, 2}), 3.0 / 27);
  EXPECT_DOUBLE_EQ(promised_bubble(Algorithm::zero_bubble, {4, 12}), 3.0 / 39);
}

TEST(PipelineTimeline, ActivationsAreThoseOfTheFormula) {
  for_each_shape([](Algorithm algorithm, const Shape& shape) {
    const auto schedule = make_schedule(algorithm, shape);
    if (!has_formula(algorithm, shape)) return;  // a promise that is more than enough
    EXPECT_EQ(peak_activations(schedule), schedule.most_activations) << text_of(algorithm, shape);
  });
  EXPECT_THAT(make_schedule("gpipe", {4, 12}).most_activations, ElementsAre(12, 12, 12, 12));
  EXPECT_THAT(make_schedule("1f1b", {4, 12}).most_activations, ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(make_schedule("interleaved", {4, 12, 2}).most_activations, ElementsAre(11, 9, 7, 5));
  EXPECT_THAT(make_schedule("zero-bubble", {4, 12}).most_activations, ElementsAre(4, 4, 4, 4));
}

TEST(PipelineTimeline, OneBufferIsAsFastAsMany) {
  for_each_shape([](Algorithm algorithm, const Shape& shape) {
    auto schedule = make_schedule(algorithm, shape);
    ASSERT_EQ(schedule.buffers, 1);
    const double seconds = simulate(schedule, equal_costs(shape, 0.5)).seconds;
    schedule.buffers = 1000;
    EXPECT_DOUBLE_EQ(seconds, simulate(schedule, equal_costs(shape, 0.5)).seconds) << text_of(algorithm, shape);
  });
}

TEST(PipelineTimeline, AnIncompleteGroupCostsNoMoreThanAWholeOne) {
  for_each_shape([](Algorithm algorithm, const Shape& shape) {
    Shape whole = shape;
    whole.microbatches = (shape.microbatches + shape.ranks - 1) / shape.ranks * shape.ranks;
    EXPECT_LE(simulate(make_schedule(algorithm, shape), equal_costs(shape)).seconds,
              simulate(make_schedule(algorithm, whole), equal_costs(whole)).seconds)
        << text_of(algorithm, shape);
  });
}

TEST(PipelineTimeline, AStepByHand) {
  // Rank 0: F0 0-1, F1 1-2, B0 6-8, B1 10-12. Rank 1: F0 1.5-2.5, B0 2.5-5.5, F1 5.5-6.5, B1 6.5-9.5, so that
  // its gradients arrive at 6 and 10.
  const auto line = simulate(make_schedule("1f1b", {2, 2}), {{{1, 1, 1}, {1, 2, 1}}, 0.5});
  std::vector<double> begins;
  for (const auto& spans : line.spans)
    for (const auto& span : spans) begins.push_back(span.begin);
  EXPECT_THAT(begins, ElementsAre(0, 1, 6, 10, 1.5, 2.5, 5.5, 6.5));
  EXPECT_DOUBLE_EQ(line.seconds, 12);
  EXPECT_THAT(line.idle, ElementsAre(6, 4));
  EXPECT_DOUBLE_EQ(line.bubble(), 10.0 / 24);
}

TEST(PipelineTimeline, ASendWaitsForABuffer) {
  // Rank 1 takes five seconds for a forward: rank 0 sends its third result when rank 1 takes the second one, at 6.
  auto schedule = make_schedule("gpipe", {2, 4});
  const Costs costs{{{1, 1, 1}, {5, 1, 1}}};
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).spans[0][3].begin, 6);
  schedule.buffers = 2;
  EXPECT_DOUBLE_EQ(simulate(schedule, costs).spans[0][3].begin, 3);
}
}  // namespace
}  // namespace distdl::parallel::pipeline
