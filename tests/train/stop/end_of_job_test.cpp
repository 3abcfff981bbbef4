// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {
namespace {
using namespace std::chrono_literals;

const auto kNow = std::chrono::system_clock::from_time_t(1900000000);

EndOfJob ending_in(std::chrono::seconds left, double margin, const records::MeasuredTimes& before = {}) {
  return {{kNow + left}, margin, before};
}

TEST(EndOfJob, StopsWhenOneMoreStepAndASaveMightNotFit) {
  EndOfJob end = ending_in(100s, 10);
  EXPECT_FALSE(end.poll(kNow + 89s));
  EXPECT_EQ(end.poll(kNow + 91s), "end of the job in 9 s");
  end.step_took(5);
  end.save_took(20);
  EXPECT_FALSE(end.poll(kNow + 49s));
  EXPECT_TRUE(end.poll(kNow + 51s));
  EXPECT_FALSE(EndOfJob({}, 10).poll(kNow + 1000s));
}

TEST(EndOfJob, LeavesTimeForASnapshotThatTheLastSaveWouldWaitFor) {
  EndOfJob end = ending_in(200s, 15);
  end.save_took(20);
  end.snapshot_took(60);
  EXPECT_FALSE(end.poll(kNow + 154s));
  EXPECT_TRUE(end.poll(kNow + 156s));
  EXPECT_FALSE(end.poll(kNow + 94s, {.waits_for_save = true}));
  EXPECT_TRUE(end.poll(kNow + 96s, {.waits_for_save = true}));
  end.save_took(80);  // an earlier one of which may be under way as well
  EXPECT_TRUE(end.poll(kNow, {.waits_for_save = true}));
}

TEST(EndOfJob, LeavesTimeForTheEvaluationAfterTheStep) {
  EndOfJob end = ending_in(200s, 10);
  end.step_took(2);
  end.set_steps_per_evaluation(10);
  EXPECT_TRUE(end.poll(kNow + 157s, {.evaluates = true})) << "as ten steps, as long as none was measured";
  EXPECT_FALSE(end.poll(kNow + 155s, {.evaluates = true}));
  end.evaluation_took(60);
  EXPECT_FALSE(end.poll(kNow + 95s, {.evaluates = true}));
  EXPECT_TRUE(end.poll(kNow + 97s, {.evaluates = true}));
  EXPECT_FALSE(end.poll(kNow + 97s)) << "none follows the next step";
}

TEST(EndOfJob, GivesAnEvaluationUpForTheSave) {
  EndOfJob end = ending_in(200s, 10);
  end.step_took(50);
  end.evaluation_took(500);
  end.save_took(20);
  EXPECT_FALSE(end.must_save(kNow + 159s, false));
  EXPECT_TRUE(end.must_save(kNow + 160s, false));
  EXPECT_TRUE(end.must_save(kNow + 140s, true));
  EXPECT_FALSE(EndOfJob({}, 10).must_save(kNow, true));
}

TEST(EndOfJob, ForgetsWhatWasSlowLongAgo) {
  EndOfJob end = ending_in(1000s, 0, {.step = 1, .evaluation = 100, .save = 50, .snapshot = 40});
  EXPECT_EQ(end.times().save, 50);
  for (int i = 0; i < 5; ++i) {
    end.save_took(2);
    end.snapshot_took(1);
    end.evaluation_took(3);
  }
  end.step_took(600);  // the job was suspended
  for (int i = 0; i < 99; ++i) end.step_took(0.5);
  EXPECT_EQ(end.times().step, 600);
  end.step_took(0.5);
  const auto times = end.times();
  EXPECT_EQ(std::tuple(times.step, times.evaluation, times.save, times.snapshot), std::tuple(0.5, 3.0, 2.0, 1.0));
}

TEST(EndOfJob, MeasuresNothingWhileItIsDisturbed) {
  EndOfJob end = ending_in(1000s, 0);
  end.step_took(1);
  end.set_disturbed(true);
  end.step_took(600);
  end.save_took(600);
  end.set_disturbed(false);
  end.save_took(2);
  EXPECT_EQ(end.times().step, 1);
  EXPECT_EQ(end.times().save, 2);
}

TEST(EndOfJob, FollowsAnEndThatIsMoved) {
  EndOfJob end = ending_in(100s, 10);
  EXPECT_TRUE(end.poll(kNow + 95s));
  EXPECT_FALSE(end.set_end(kNow + 100s)) << "it is the same";
  EXPECT_TRUE(end.set_end(kNow + 200s));
  EXPECT_FALSE(end.poll(kNow + 95s));
  end.set_end(kNow + 50s);
  EXPECT_TRUE(end.poll(kNow + 45s));
}

TEST(Deadline, TellsWhatTheRuleSays) {
  EXPECT_FALSE(EndOfJob({}, 10).deadline());
  EndOfJob end({kNow + 1000s, 90s, slurm::PreemptMode::requeue, 30s}, 15);
  end.step_took(2);
  end.save_took(20);
  const auto known = end.deadline();
  ASSERT_TRUE(known);
  EXPECT_EQ(known->end, 1900001000.0);
  EXPECT_EQ(known->needed, 2 * 2 + 20 * 1.5 + 15);
  EXPECT_EQ(known->last_safe, 1900001000.0 - known->needed);
  EXPECT_FALSE(end.poll(kNow + 1000s - std::chrono::seconds(50)));
  EXPECT_TRUE(end.poll(kNow + 1000s - std::chrono::seconds(49))) << "the rule is the one by which the run stops";
  EXPECT_EQ(known->warning, 1900000910.0);
  EXPECT_EQ(known->preemption, "REQUEUE");
  EXPECT_EQ(known->grace_seconds, 30);
  EXPECT_EQ(known->grace_is_enough, false) << "2 s for the step, 20 s for each of two saves";
  EXPECT_EQ(explain(*known),
            "stops 49 s before the end of the job: two steps of 2 s, a save of 20 s and half as long again, 0 s for an "
            "evaluation or save that comes before, 15 s of margin; a preemption leaves 30 s, which is too little for a "
            "step and a save");
  const auto without_end = EndOfJob({{}, {}, slurm::PreemptMode::cancel, 90s}, 15, {.save = 20}).deadline();
  ASSERT_TRUE(without_end);
  EXPECT_FALSE(without_end->end || without_end->last_safe);
  EXPECT_EQ(without_end->grace_is_enough, true);
}

TEST(Deadline, IsNewsWhenItHasMoved) {
  DeadlineNews news;
  records::DeadlineKnown deadline{.end = 1000.0, .last_safe = 900.0};
  EXPECT_TRUE(news.is_news(deadline, 0));
  deadline.last_safe = 880.0;
  EXPECT_FALSE(news.is_news(deadline, 29)) << "not each time that a step is a little slower";
  EXPECT_TRUE(news.is_news(deadline, 30));
  deadline.last_safe = 880.5;
  EXPECT_FALSE(news.is_news(deadline, 90));
  deadline.end = 2000.0;
  EXPECT_TRUE(news.is_news(deadline, 31)) << "at once";
  deadline.grace_is_enough = false;
  EXPECT_FALSE(news.is_news(deadline, 40));
  EXPECT_TRUE(news.is_news(deadline, 61));
}
}  // namespace
}  // namespace distdl::train
