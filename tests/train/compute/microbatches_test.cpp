// SPDX-License-Identifier: Apache-2.0
// The gradients of microbatches, without any other rank.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/model/models.hpp>
#include <distdl/train/compute/microbatches.hpp>
#include <distdl/train/server/lease_order.hpp>
#include <distdl/train/sync/own_order.hpp>

namespace distdl::train {
namespace {
constexpr int kOfStep = 6;
constexpr std::int64_t kSamples = 3;

using Gradients = std::vector<float>;

/// A small text model with dropout, whose microbatches one rank computes.
class MicrobatchesAlone : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    use_text();
    recipe_.kernels.backend = "reference";
    backend_ = kernels::make_backend(recipe_.kernels);
    sources_ = data::open_sources(recipe_.data, recipe_.model.context, 1);
    held_.model = model_of(recipe_, *sources_.training);
    held_.parts = {model::tensors_of(held_.model)};
    parameters_.resize(held_.parts.front().layout.size());
    model::initialize(held_.parts.front(), 1, parameters_);
  }
  std::unique_ptr<Microbatches> on(int devices, const TrainingState& from = {}) {
    auto made = std::make_unique<Microbatches>(recipe_, *backend_, held_, Rank(0), kOfStep, kSamples, devices);
    for (std::size_t device = 0; device < made->replicas().size(); ++device)
      made->replicas()[device].network->load_parameters(parameters_.data());
    const parallel::MicrobatchPlan plan{kOfStep, kSamples, {{0, kOfStep}}};
    made->start_reading(sources_, data::Sampler(1, sources_.training->samples()), from,
                        std::make_shared<OwnOrder>(plan, Rank(0), OwnGroups{}, 0));
    return made;
  }
  static Gradients of(Microbatches& microbatches, const TrainingState& state, int m) {
    Gradients gradients(microbatches.network().gradient_count());
    microbatches.compute(0, state, m, 0.1f, gradients.data());
    return gradients;
  }
  static Gradients sum_of(Microbatches& microbatches, std::int64_t step) {
    Gradients gradients(microbatches.network().gradient_count());
    microbatches.compute_sum({}, step, {3, 0}, 0.1f, gradients.data());
    return gradients;
  }
  static TrainingState after(std::int64_t step) {
    TrainingState state;
    state.step = Step(step);
    state.position = step * kOfStep * kSamples;
    return state;
  }

  std::unique_ptr<kernels::Backend> backend_;
  data::Sources sources_;
  OwnedModel held_;
  Gradients parameters_;
};

TEST_F(MicrobatchesAlone, DependOnTheirNumberInTheRunOnly) {
  auto one = on(1);
  const auto fifth = of(*one, after(0), 4), second = of(*one, after(0), 1), later = of(*one, after(1), 1);
  EXPECT_NE(fifth, second);
  EXPECT_NE(second, later);
  one.reset();  // its thread reads ahead, and a source is for one thread
  const auto other = on(1, after(1));
  EXPECT_EQ(of(*other, after(1), 1), later);
  EXPECT_EQ(of(*other, after(0), 1), second);
  other->count_from(3);
  EXPECT_EQ(of(*other, after(0), 1), fifth) << "the second one of the group that begins with the fourth one";
}

TEST_F(MicrobatchesAlone, AddUpToTheSameBitsOnAnyDevices) {
  const auto whole = sum_of(*on(1), 0), next = sum_of(*on(1), 1);
  EXPECT_NE(whole, next);
  for (const int devices : {2, 3, 7}) {
    const auto several = on(devices);
    EXPECT_EQ(sum_of(*several, 0), whole) << devices;
    EXPECT_EQ(sum_of(*several, 1), next) << devices;
  }
}

TEST_F(MicrobatchesAlone, FlipABitWhereAndWhenItIsWanted) {
  const auto one = on(1);
  const auto right = of(*one, after(0), 0), later = of(*one, after(1), 0);
  one->flip(BitFlip{BitFlip::Where::results, Rank(0), Step(1)});
  EXPECT_TRUE(one->has_flip());
  EXPECT_EQ(of(*one, after(0), 0), right);
  const auto wrong = of(*one, after(1), 0);
  EXPECT_NE(wrong[0], later[0]);
  EXPECT_TRUE(std::equal(wrong.begin() + 1, wrong.end(), later.begin() + 1));
  one->flip(BitFlip{BitFlip::Where::results, Rank(1), Step(1)});
  EXPECT_EQ(of(*one, after(1), 0), later) << "another rank's";
  Gradients arena{1, 2};
  one->flip(BitFlip{BitFlip::Where::parameters, Rank(0), Step(1)});
  one->flip_bit_if_due(after(1), BitFlip::Where::gradients, arena.data());
  EXPECT_EQ(arena, (Gradients{1, 2}));
  one->flip_bit_if_due(after(1), BitFlip::Where::parameters, arena.data());
  EXPECT_NE(arena[0], 1);
}

/// The numbers that a rank reads from its first microbatch on.
std::vector<std::int64_t> numbers_of(const ReadingOrder& order, int of_step, std::size_t count) {
  std::vector<std::int64_t> numbers{order.first()};
  while (numbers.size() < count) {
    const std::int64_t step = numbers.back() / of_step;
    numbers.push_back(step * of_step + order.after(Step(step), static_cast<int>(numbers.back() % of_step)));
  }
  return numbers;
}

TEST(ReadingOrder, OfARankGoesThroughItsMicrobatches) {
  const parallel::MicrobatchPlan plan{6, 1, {{0, 2}, {2, 4}}};
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(numbers_of(OwnOrder(plan, Rank(0), {}, 0), 6, 5), (Numbers{0, 1, 6, 7, 12}));
  EXPECT_EQ(numbers_of(OwnOrder(plan, Rank(1), {}, 0), 6, 6), (Numbers{2, 3, 4, 5, 8, 9}));
}

TEST(ReadingOrder, GoesThroughAllGroupsOfARank) {
  const parallel::MicrobatchPlan group{3, 1, {{0, 3}}};
  const OwnOrder order(group, Rank(0), {4, {1, 2}}, 0);
  EXPECT_EQ(numbers_of(order, 12, 8), (std::vector<std::int64_t>{3, 4, 5, 6, 7, 8, 15, 16}));
  EXPECT_EQ(order.divided_with(7).first, 6);
  EXPECT_EQ(order.divided_with(7).count, 3);
}

/// Before the first microbatch of the step that follows it.
TEST(ReadingOrder, HasTheMicrobatchThatAnAuditComputesAgain) {
  const parallel::MicrobatchPlan plan{6, 1, {{0, 3}, {3, 3}}};
  const auto numbers = numbers_of(OwnOrder(plan, Rank(0), {}, 2), 6, 12);
  const auto others = std::ranges::count_if(numbers, [](std::int64_t m) { return m % 6 >= 3; });
  EXPECT_EQ(others, 2) << "of steps 0 and 2";
  EXPECT_GE(numbers[3], 3);
  EXPECT_LT(numbers[3], 6);
  EXPECT_EQ(numbers[4], 6);
}

TEST(ReadingOrder, OfAWorkerIsThatOfLeasesInTurn) {
  const parallel::server::StepParts parts{4, {{1, 0}, {1, 1}}};
  const LeaseOrder order(parts, 2);
  EXPECT_EQ(numbers_of(order, 4, 5), (std::vector<std::int64_t>{0, 1, 4, 5, 8}));
  EXPECT_EQ(order.divided_with(3).first, 2);
}
}  // namespace
}  // namespace distdl::train
