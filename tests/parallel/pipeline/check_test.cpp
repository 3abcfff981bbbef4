// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/pipeline/shapes.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/parallel/pipeline/check.hpp>
#include <distdl/parallel/pipeline/timeline.hpp>

namespace distdl::parallel::pipeline {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using Random = std::mt19937;

std::size_t below(Random& random, std::size_t end) {
  return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
}

/// "F0 F1 B0 ..."
std::string order_of(const Schedule& schedule, std::size_t rank) {
  std::string text;
  for (const auto& each : schedule.operations[rank])
    text += fmt::format("{}{}{} ", "FBBW"[static_cast<std::size_t>(each.kind)], each.microbatch,
                        schedule.shape.interleave > 1 ? fmt::format(".{}", each.stage) : "");
  return text;
}

TEST(PipelineCheck, AcceptsAllSchedules) {
  for_each_shape([](Algorithm algorithm, const Shape& shape) {
    EXPECT_EQ(check_schedule(make_schedule(algorithm, shape)), "") << text_of(algorithm, shape);
  });
  for (const auto& row : kAlgorithms) EXPECT_EQ(check_schedule(make_schedule(row.value, {32, 200})), "") << row.name;
}

TEST(PipelineCheck, SchedulesAreThoseOfThePapers) {
  const Shape two{2, 3};
  EXPECT_EQ(order_of(make_schedule("gpipe", two), 0), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(order_of(make_schedule("1f1b", two), 0), "F0 F1 B0 F2 B1 B2 ");
  EXPECT_EQ(order_of(make_schedule("1f1b", two), 1), "F0 B0 F1 B1 F2 B2 ");
  EXPECT_EQ(order_of(make_schedule("zero-bubble", two), 0), "F0 F1 B0 W0 F2 B1 W1 B2 W2 ");
  EXPECT_EQ(order_of(make_schedule("zero-bubble", two), 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2 ");
  EXPECT_EQ(order_of(make_schedule("interleaved", {2, 2, 2}), 0), "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0 ");
  EXPECT_EQ(order_of(make_schedule("interleaved", {2, 2, 2}), 1), "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1 ");
}

TEST(PipelineCheck, MakeScheduleRefusesWhatCannotBe) {
  EXPECT_THROW(make_schedule("1f1b", {0, 1}), ConfigError);
  EXPECT_THROW(make_schedule("1f1b", {1, 0}), ConfigError);
  EXPECT_THROW(make_schedule("1f1b", {2, 2, 2}), ConfigError);
  EXPECT_THROW(make_schedule("2f2b", {2, 2}), ConfigError);
}

/// A change that leaves no valid schedule. Nothing, if this one cannot be changed in that way at `operation`.
using Mutation = std::function<bool(Schedule&, std::vector<Operation>&, std::size_t operation, Random&)>;

bool swap_with_like(std::vector<Operation>& operations, std::size_t operation, bool is_wanted(Operation, Operation)) {
  const auto other = std::find_if(operations.begin(), operations.end(),
                                  [&](const Operation& each) { return is_wanted(operations[operation], each); });
  if (other == operations.end()) return false;
  std::swap(*other, operations[operation]);
  return true;
}

/// Another number in [least, end).
bool change(int& number, int least, int end, Random& random) {
  const int before = number;
  if (end - least < 2) return false;
  while (number == before) number = least + static_cast<int>(below(random, static_cast<std::size_t>(end - least)));
  return true;
}

const std::map<std::string, Mutation> kMutations{
    {"drop",
     [](Schedule&, auto& operations, std::size_t i, Random&) {
       operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
       return true;
     }},
    {"duplicate",
     [](Schedule&, auto& operations, std::size_t i, Random& random) {
       const Operation copy = operations[i];
       operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(below(random, operations.size() + 1)), copy);
       return true;
     }},
    {"swap microbatches",
     [](Schedule&, auto& operations, std::size_t i, Random&) {
       return swap_with_like(operations, i, [](Operation a, Operation b) {
         return a.kind == b.kind && a.stage == b.stage && a.microbatch != b.microbatch;
       });
     }},
    {"swap forward and backward",
     [](Schedule&, auto& operations, std::size_t i, Random&) {
       return swap_with_like(operations, i, [](Operation a, Operation b) {
         return a.kind != b.kind && a.stage == b.stage && a.microbatch == b.microbatch;
       });
     }},
    {"move to another rank",
     [](Schedule& schedule, auto& operations, std::size_t i, Random& random) {
       auto& other = schedule.operations[below(random, schedule.operations.size())];
       if (&other == &operations) return false;
       other.insert(other.begin() + static_cast<std::ptrdiff_t>(below(random, other.size() + 1)), operations[i]);
       operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
       return true;
     }},
    {"change the source",
     [](Schedule& schedule, auto& operations, std::size_t i, Random& random) {
       return change(operations[i].receive_from, -1, schedule.shape.ranks + 1, random);
     }},
    {"change the target",
     [](Schedule& schedule, auto& operations, std::size_t i, Random& random) {
       return change(operations[i].send_to, -1, schedule.shape.ranks + 1, random);
     }},
    {"change the microbatch",
     [](Schedule& schedule, auto& operations, std::size_t i, Random& random) {
       return change(operations[i].microbatch, -1, schedule.shape.microbatches + 1, random);
     }},
    {"change the stage",
     [](Schedule& schedule, auto& operations, std::size_t i, Random& random) {
       return change(operations[i].stage, -1, schedule.shape.stages() + 1, random);
     }},
    {"change the kind",
     [](Schedule&, auto& operations, std::size_t i, Random& random) {
       int kind = static_cast<int>(operations[i].kind);
       change(kind, 0, 5, random);
       operations[i].kind = static_cast<Kind>(kind);
       return true;
     }},
    {"promise fewer activations",
     [](Schedule& schedule, auto&, std::size_t, Random&) {
       const auto peaks = peak_activations(schedule);
       for (std::size_t rank = 0; rank < peaks.size(); ++rank) schedule.most_activations[rank] = peaks[rank];
       --schedule.most_activations.back();
       return true;
     }},
};

TEST(PipelineCheck, FindsEachMutant) {
  std::map<std::string, int> found;
  for_each_shape([&](Algorithm algorithm, const Shape& shape) {
    Random random(static_cast<unsigned>(shape.ranks * 1000 + shape.microbatches * 10 + shape.interleave));
    const Schedule whole = make_schedule(algorithm, shape);
    for (const auto& [name, mutate] : kMutations)
      for (int seed = 0; seed < 4; ++seed) {
        Schedule mutant = whole;
        auto& operations = mutant.operations[below(random, mutant.operations.size())];
        if (!mutate(mutant, operations, below(random, operations.size()), random)) continue;
        ++found[name];
        EXPECT_NE(check_schedule(mutant), "") << name << ": " << text_of(algorithm, shape);
      }
  });
  EXPECT_EQ(found.size(), kMutations.size());
  for (const auto& [name, count] : found) EXPECT_GT(count, 1000) << name;
}

/// Whether each operation begins after what it needs has ended, wherever that is: from the definition, not from the
/// check.
bool is_in_order(const Schedule& schedule) {
  const auto stages = static_cast<std::size_t>(schedule.shape.stages());
  const auto line = simulate(schedule, {std::vector<StageCosts>(stages), 0.25});
  std::map<std::tuple<Kind, int, int>, Span> spans;
  for (std::size_t rank = 0; rank < line.spans.size(); ++rank) {
    if (line.done[rank] < schedule.operations[rank].size()) return false;
    for (std::size_t i = 0; i < line.spans[rank].size(); ++i) {
      const auto& each = schedule.operations[rank][i];
      spans[{each.kind, each.stage, each.microbatch}] = line.spans[rank][i];
    }
  }
  const auto follows = [&](const Span& span, Kind kind, int stage, int microbatch) {
    const auto need = spans.find({kind, stage, microbatch});
    return need == spans.end() || need->second.end <= span.begin;
  };
  return std::all_of(spans.begin(), spans.end(), [&](const auto& each) {
    const auto& [kind, stage, microbatch] = each.first;
    if (kind == Kind::forward) return follows(each.second, kind, stage - 1, microbatch);
    if (kind == Kind::backward_weight) return follows(each.second, Kind::backward_input, stage, microbatch);
    return follows(each.second, Kind::forward, stage, microbatch) && follows(each.second, kind, stage + 1, microbatch);
  });
}

TEST(PipelineCheck, AcceptsAnySwapOnlyIfTheOrderStaysRight) {
  int accepted = 0, refused = 0;
  for_each_shape([&](Algorithm algorithm, const Shape& shape) {
    Random random(static_cast<unsigned>(shape.ranks * 1000 + shape.microbatches * 10 + shape.interleave));
    for (int seed = 0; seed < 8; ++seed) {
      Schedule mutant = make_schedule(algorithm, shape);
      auto& operations = mutant.operations[below(random, mutant.operations.size())];
      const auto first = below(random, operations.size() - 1);  // near ones are accepted more often
      std::swap(operations[first], operations[std::min(first + 1 + below(random, 3), operations.size() - 1)]);
      const bool fits = check_schedule(mutant).empty();
      ++(fits ? accepted : refused);
      EXPECT_TRUE(!fits || is_in_order(mutant)) << text_of(algorithm, shape);
    }
  });
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

TEST(PipelineCheck, FindsADeadlock) {
  Schedule schedule = make_schedule("1f1b", {2, 2});
  schedule.operations[0] = {schedule.operations[0][0], schedule.operations[0][2], schedule.operations[0][1],
                            schedule.operations[0][3]};  // the second forward only after the first backward
  EXPECT_EQ(check_schedule(schedule), "");
  std::swap(schedule.operations[1][1], schedule.operations[1][2]);  // which waits for the second forward
  schedule.most_activations[1] = 2;
  EXPECT_THAT(check_schedule(schedule), HasSubstr("rank 0, operation 1 (backward of microbatch 0 in stage 0): never"));
}

TEST(PipelineCheck, FindsThatBuffersAreTooFew) {
  // All microbatches pass each stage before any passes the rank's next one: messages of the last rank pile up.
  Schedule schedule = make_schedule("interleaved", {2, 4, 2});
  for (auto& operations : schedule.operations)
    std::stable_sort(operations.begin(), operations.end(), [](const Operation& a, const Operation& b) {
      const auto key = [](const Operation& each) {
        return std::tuple(!each.is_forward(), each.is_forward() ? each.stage : -each.stage, each.microbatch);
      };
      return key(a) < key(b);
    });
  schedule.most_activations = {8, 8};
  EXPECT_THAT(check_schedule(schedule), HasSubstr("deadlock"));
  schedule.buffers = 2;
  EXPECT_EQ(check_schedule(schedule), "");
  schedule.buffers = 0;
  EXPECT_THAT(check_schedule(schedule), HasSubstr("at least 1"));
}

TEST(PipelineCheck, FindsMessagesInAnotherOrder) {
  // Valid for each rank alone: rank 0 sends the activations of stages 0 and 2 in another order than rank 1 takes them.
  Schedule schedule = make_schedule("interleaved", {2, 2, 2});
  auto& operations = schedule.operations[1];
  ASSERT_EQ(order_of(schedule, 1), "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1 ");
  std::swap(operations[1], operations[2]);
  EXPECT_THAT(check_schedule(schedule), HasSubstr("activations of rank 0 in the order"));
}
}  // namespace
}  // namespace distdl::parallel::pipeline
