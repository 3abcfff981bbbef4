// SPDX-License-Identifier: Apache-2.0
// Gradients are summed in buckets while the backward pass runs: no byte of a run depends on it.

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/train/trace_file.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kSmallest = 1e-6;  ///< MiB: each layer is a bucket
constexpr double kWhole = 1e6;

/// Of all ranks that were traced: steps whose first update begins before their last sum has ended.
int steps_that_update_before_the_last_sum(const std::filesystem::path& traces) {
  int steps = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(traces)) {
    if (!entry.is_regular_file()) continue;
    const auto trace = read_trace_file(entry.path());
    for (const auto& step : trace.spans) {
      if (step.kind != SpanKind::step) continue;
      auto first_update = std::numeric_limits<std::int64_t>::max(), last_sum = std::numeric_limits<std::int64_t>::min();
      for (const auto& span : trace.spans) {
        if (span.begin < step.begin || span.end > step.end) continue;
        if (span.kind == SpanKind::bucket) last_sum = std::max(last_sum, span.end);
        if (span.kind == SpanKind::phase && trace.name(span) == "update")
          first_update = std::min(first_update, span.begin);
      }
      steps += first_update < last_sum ? 1 : 0;
    }
  }
  return steps;
}

class Overlapped : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 12;
    recipe_.parallel.bucket_mib = kWhole;
  }
  std::string digest_of(int ranks, double bucket_mib) {
    const auto name = fmt::format("run{}", ++runs_);
    recipe_.parallel.bucket_mib = bucket_mib;
    EXPECT_EQ(run(ranks, name), Outcome::finished);
    return digest(name);
  }
  void expect_same_bytes(std::initializer_list<int> numbers_of_ranks, const std::string& what) {
    const auto expected = digest_of(1, kWhole);
    for (const int ranks : numbers_of_ranks)
      for (const double mib : {kSmallest, 0.002}) EXPECT_EQ(digest_of(ranks, mib), expected) << what << ", " << ranks;
    EXPECT_EQ(digest_of(2, kWhole), expected) << what;
  }
  int runs_ = 0;
};

TEST_F(Overlapped, GivesTheSameBytesForEachOptimizerWithWhatItNeedsOfTheWholeGradient) {
  for (const std::string name : {"sgd", "adamw", "lamb", "lars"})
    for (const double clip_norm : {0.0, 0.1}) {
      recipe_.optim = {
          .name = name, .learning_rate = 0.01, .weight_decay = 0.01, .clip_norm = clip_norm, .ema_decay = 0.9};
      expect_same_bytes({clip_norm > 0 ? 5 : 2}, fmt::format("{}, clip_norm {}", name, clip_norm));
    }
}

TEST_F(Overlapped, GivesTheSameBytesForEachPrecision) {
  for (const char* precision : {"bf16", "fp16"}) {
    recipe_.kernels.precision = precision;
    expect_same_bytes({3}, precision);
  }
}

TEST_F(Overlapped, GivesTheSameBytesForALayerThatIsUsedTwice) {
  use_text();
  for (const bool tied : {true, false}) {
    recipe_.model.tied_head = tied;
    expect_same_bytes({2, 4}, tied ? "tied" : "not tied");
  }
}

TEST_F(Overlapped, AuditsComeBeforeTheSum) {
  const auto expected = digest_of(1, kWhole);
  recipe_.train.audit_every = 4;
  recipe_.parallel = {.microbatches = 12, .microbatch_size = 3, .bucket_mib = kSmallest};
  for (const int ranks : {2, 3}) EXPECT_EQ(digest_of(ranks, kSmallest), expected);
  EXPECT_THAT(recorder_.corrupted, IsEmpty());
  EXPECT_THAT(recorder_.audited, SizeIs(8));
  for (const char* flip : {"parameters:1:4", "gradients:1:4"}) {
    recorder_ = {};
    bit_flip_ = bit_flip_from(flip);
    EXPECT_THAT(error_of(3, flip), HasSubstr("silent corruption found by the audit of step")) << flip;
    EXPECT_EQ(code_, ExitCode::corruption);
  }
}

TEST_F(Overlapped, AStopReachesAllRanksInTheSameStep) {
  recipe_.parallel.bucket_mib = kSmallest;
  for (const int stopper : {0, 2}) {
    const auto name = fmt::format("stopped{}", stopper);
    EXPECT_EQ(run(3, name, 4, stopper), Outcome::stopped);
    EXPECT_EQ(run(2, name, 3, 1), Outcome::stopped);
    EXPECT_EQ(run(1, name), Outcome::finished);
    recipe_.parallel.bucket_mib = kWhole;
    EXPECT_EQ(run(1, "whole" + name), Outcome::finished);
    EXPECT_EQ(digest(name), digest("whole" + name));
    recipe_.parallel.bucket_mib = kSmallest;
  }
}

TEST_F(Overlapped, MicrobatchesMove) {
  recipe_.train.steps = 60;
  const auto expected = digest_of(1, kWhole);
  rank_times_ = [](Rank rank, Step step, const parallel::MicrobatchPlan& plan) {
    const bool slow = step < Step(30) && rank == Rank(1);
    return RankTimes{slow ? 3.0 : 1.0, plan.of(rank).count * (slow ? 3.0 : 1.0)};
  };
  EXPECT_EQ(digest_of(3, kSmallest), expected);
  EXPECT_FALSE(recorder_.shares.empty());
}

TEST_F(Overlapped, TellsWhatOfTheSumWasNotHidden) {
  for (const double mib : {kSmallest, kWhole}) {
    recorder_ = {};
    digest_of(2, mib);
    for (const records::StepDone& step : recorder_.steps) {
      ASSERT_TRUE(step.sum_seconds && step.sum_waited_seconds);
      EXPECT_GT(*step.sum_seconds, 0);
      EXPECT_GT(*step.sum_waited_seconds, 0);
    }
  }
  recorder_ = {};
  digest_of(1, kSmallest);
  for (const records::StepDone& step : recorder_.steps) EXPECT_FALSE(step.sum_seconds || step.sum_waited_seconds);
}

/// A norm of all gradients needs all sums.
TEST_F(Overlapped, ARangeIsUpdatedWhenItsSumIsThere) {
  recipe_.model.hidden = {64, 64, 64, 64};
  shared_memory_ranks_ = 1;  // sums take their time
  for (const double clip_norm : {0.0, 0.1}) {
    recipe_.optim.clip_norm = clip_norm;
    const auto traces = folder_ / fmt::format("traces{}", clip_norm);
    trace_ = TraceSetting{traces, {2, 12}};
    digest_of(2, kSmallest);
    EXPECT_EQ(steps_that_update_before_the_last_sum(traces) > 0, clip_norm == 0) << clip_norm;
  }
}

TEST_F(Overlapped, AResumeMayHaveOtherBuckets) {
  recipe_.parallel.bucket_mib = kSmallest;
  EXPECT_EQ(run(2, "cut", 4), Outcome::stopped);
  recipe_.parallel.bucket_mib = 0;
  EXPECT_EQ(run(2, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest_of(1, kWhole));
}

TEST_F(Overlapped, RefusesABucketThatMakesNoSense) {
  recipe_.parallel.bucket_mib = -1;
  EXPECT_THAT(error_of(1, "negative"),
              HasSubstr("parallel.bucket_mib is -1, but must be a finite number of at least 0"));
}
}  // namespace
}  // namespace distdl::train
