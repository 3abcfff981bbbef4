// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/scratch_folder.hpp"
#include "tests/records/row_of.hpp"
#include <distdl/app/watch/followed_run.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/app/watch/timeline.hpp>

namespace distdl::app {
namespace {
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

/// What a run tells while it goes through preemptions and faults, by a clock of its own.
class SimulatedRun {
 public:
  static constexpr std::int64_t kSteps = 2000;
  static constexpr double kStep = 2;  // seconds

  SimulatedRun() {
    tell("submitted");
    wait(5000);  // the first queue is over before any step, and does not come again
    start(0, false);
  }
  void tell(const char* name, json fields = json::object()) {
    fields["job"] = "17";
    story.add(records::row_of(name, now_, std::move(fields)));
  }
  void start(std::int64_t from, bool interrupted) {
    tell("job_started");
    tell("launch");
    wait(10);
    tell("started", {{"total_steps", kSteps}, {"resumed_from", from}, {"interrupted", interrupted}, {"ranks", 4}});
    step_ = from;
  }
  void train_until(std::int64_t step) {
    while (step_ < step) {
      wait(kStep);
      ++step_;
      story.add(
          {records::StepDone{.step = Step(step_), .loss = 1.0, .samples_per_s = 192, .waited_seconds = 0.1}, now_});
    }
  }
  void preempt() {
    tell("stopped", {{"step", step_}});
    tell("launch_ended", {{"code", 75}});
    tell("requeued");
    wait(60);
    start(step_, true);
  }
  void lose_a_rank(std::int64_t back) {
    tell("launch_ended", {{"code", 69}});
    start(step_ - back, true);
  }
  RunView view() const {
    RunView view{.now = now_};
    view.report.summary = story.summary();
    view.report.state = {"training", "", true};
    story.fill(view);
    return view;
  }
  double now() const { return now_; }
  void wait(double seconds) { now_ += seconds; }

  RunStory story;

 private:
  double now_ = 1e9;
  std::int64_t step_ = 0;
};

/// Three preemptions and two faults, one in each sixth of the run. Returns when it ended.
double train(SimulatedRun& run, const std::function<void(std::int64_t)>& look = {}) {
  constexpr std::int64_t kPart = SimulatedRun::kSteps / 6;
  for (std::int64_t part = 1; part <= 5; ++part) {
    run.train_until(part * kPart);
    if (look) look(part * kPart);
    part % 2 == 1 ? run.preempt() : run.lose_a_rank(20);
    if (look) look(part * kPart);
  }
  run.train_until(SimulatedRun::kSteps);
  return run.now();
}

TEST(Estimates, OfARunWithFaultsAreWithinATenthAfterItsHalf) {
  SimulatedRun whole;
  const double end = train(whole);
  SimulatedRun run;
  int looks = 0;
  train(run, [&](std::int64_t step) {
    if (step < SimulatedRun::kSteps / 2 - 10 || step > SimulatedRun::kSteps * 3 / 4) return;
    const auto estimate = run.view().estimate;
    ASSERT_TRUE(estimate.seconds);
    EXPECT_NEAR(*estimate.seconds / (end - run.now()), 1, 0.1) << "at step " << step;
    ++looks;
  });
  EXPECT_EQ(looks, 4) << "before and right after resumes";
}

TEST(Estimates, BeforeAnyStepSayThatThereIsNone) {
  SimulatedRun run;
  EXPECT_FALSE(run.view().estimate.seconds);
  EXPECT_THAT(estimate_text(run.view()), HasSubstr("no estimate: no step has been measured yet"));
  run.train_until(1);
  EXPECT_TRUE(run.view().estimate.seconds);
  EXPECT_THAT(estimate({.step = 5}).reason, HasSubstr("number of steps"));
}

TEST(Estimates, FollowTheSpeedOfThePresentStart) {
  Pace pace{.step = 1000, .total = 2000, .run_step_seconds = 1, .run_ranks = 4, .ranks = 2, .training_seconds = 1000};
  EXPECT_EQ(estimate(pace).seconds, 2000) << "half of the ranks";
  pace.start_steps = 5000;
  pace.start_seconds = 5000 * 1.5;
  EXPECT_NEAR(*estimate(pace).seconds, 1500, 10);
  pace.lost_seconds = 500;
  EXPECT_NEAR(*estimate(pace).seconds, 2250, 15);
  pace.wait_seconds = 600;
  EXPECT_NEAR(*estimate(pace).seconds, 2850, 15);
  pace.step = 2100;
  EXPECT_EQ(estimate(pace).seconds, 600) << "nothing is left";
}

TEST(RunStories, TellWhatTheRowsTell) {
  SimulatedRun run;
  run.train_until(100);
  run.tell("checkpoint", {{"step", 100}, {"bytes", 5000}, {"seconds", 2}});
  const json shares{{"step", 100}, {"shares", {2, 4}}, {"microbatch_seconds", {0.1, 0.1}}, {"hosts", {"n1", "n2"}}};
  run.tell("shares", shares);
  run.tell("save_failed", {{"step", 110}, {"reason", "disk full"}});
  run.train_until(150);
  run.lose_a_rank(50);
  run.train_until(120);
  const auto view = run.view();
  EXPECT_EQ(view.curves["distdl_loss"].points().size(), 120u);
  EXPECT_NEAR(view.step_seconds, SimulatedRun::kStep, 1e-6);
  EXPECT_EQ(view.samples_per_s, 192);
  ASSERT_EQ(view.saves.size(), 1u);
  EXPECT_EQ(view.saves[0].bytes, 5000);
  EXPECT_EQ(view.failed_saves, 1);
  EXPECT_NEAR(view.ledger[observe::Bucket::lost_work], 100, 4);
  EXPECT_NEAR(view.ledger[observe::Bucket::queued], 5000, 1);
  std::vector<std::string> texts;
  for (const auto& entry : view.timeline) texts.push_back(entry.text);
  EXPECT_THAT(texts, ElementsAre("job 17 submitted", "job 17 begins", "starts 0 ranks", "training begins, 4 ranks",
                                 "the save of step 110 failed: disk full", "the ranks have ended, code 69",
                                 "job 17 begins", "starts 0 ranks", "training goes on from step 100, 4 ranks"));
}

TEST(RunStories, DivideAStepIntoPhases) {
  SimulatedRun run;
  run.tell("shares", {{"shares", {2, 4}}, {"microbatch_seconds", {0.1, 0.1}}, {"hosts", {"n1", "n2"}}});
  run.train_until(30);
  const auto ranks = run.view().ranks;
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_NEAR(ranks[0].compute, 0.2, 1e-6);
  EXPECT_NEAR(ranks[0].data, 0.1, 1e-6);
  EXPECT_NEAR(ranks[0].other, 1.7, 1e-6);
  EXPECT_NEAR(ranks[1].compute, 0.4, 1e-6);
  EXPECT_NEAR(ranks[1].sum, 1.6, 1e-6);
}

TEST(RunStories, NameFaultsAndTheirCauses) {
  const auto tell = [](const char* name, const json& fields) {
    const auto entry = timeline_entry_of(records::row_of(name, 5, fields));
    return entry ? fmt::format("{} {}", static_cast<int>(entry->tone), entry->text) : std::string();
  };
  const auto red = fmt::format("{} ", static_cast<int>(Colour::red));
  EXPECT_EQ(tell("failure", {{"kind", "killed"}, {"cause", "n2: rank 1 was killed by SIGKILL"}}),
            red + "killed: n2: rank 1 was killed by SIGKILL");
  EXPECT_EQ(tell("launch_ended", {{"code", 75}}), "") << "on purpose";
  EXPECT_EQ(tell("job_ended", {{"code", 78}}).substr(0, 26), red + "the job ends with 78: th");
  EXPECT_EQ(tell("failed", {{"code", 69}, {"cause", "rank lost"}}), red + "the run gives up, code 69: rank lost");
  EXPECT_EQ(tell("progress", json::object()), "");
  EXPECT_EQ(tell("of a later version", json::object()), "");
}

class Followed : public testing::Test {
 protected:
  void append(const char* name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::app) << text; }
  data::ScratchFolder folder_;
};

TEST_F(Followed, OfAnEmptyFolderIsNew) {
  FollowedRun run(folder_.path());
  run.read(1e9);
  EXPECT_EQ(run.view(1e9).report.state.word, "new");
  EXPECT_TRUE(run.jobs().empty());
}

TEST_F(Followed, OfTheFirstVersionHasNoTimes) {
  append("metrics.jsonl",
         "{\"step\":1,\"loss\":2,\"samples_per_s\":50}\n{\"step\":2,\"loss\":1,\"samples_per_s\":60}\n");
  append("journal.jsonl",
         "{\"event\":\"started\",\"restart\":0,\"ranks\":2,\"total_steps\":4}\n{\"event\":\"finished\"}\n");
  FollowedRun run(folder_.path());
  run.read(1e9);
  const auto view = run.view(1e9);
  EXPECT_EQ(view.report.state.word, "finished");
  EXPECT_EQ(view.curves["distdl_loss"].points().size(), 2u);
  EXPECT_EQ(view.samples_per_s, 55);
  EXPECT_EQ(view.step_seconds, 0);
}

TEST_F(Followed, OfALongFileHasTheWholeCurve) {
  std::string text;
  constexpr int kRows = 100'000;
  for (int step = 1; step <= kRows; ++step)
    text += fmt::format(
        "{{\"time\":{},\"step\":{},\"epoch\":{:.2f},\"loss\":0.512345,\"accuracy\":0.75,\"learning_rate\":"
        "0.001,\"samples_per_s\":4800.5,\"waited_seconds\":0.0001}}\n",
        1e9 + step, step, step / 1e3);
  append("metrics.jsonl", text);
  append("journal.jsonl", "{\"event\":\"started\",\"time\":1000000000,\"ranks\":2,\"total_steps\":200000}\n");
  FollowedRun run(folder_.path());
  run.read(1e9 + kRows);
  const auto view = run.view(1e9 + kRows);
  EXPECT_EQ(view.report.summary.step, Step(kRows));
  EXPECT_LT(view.curves["distdl_loss"].points().front().step, 2000);
  EXPECT_EQ(view.curves["distdl_loss"].points().back().step, kRows);
  EXPECT_GT(view.curves["distdl_loss"].points().size(), 1000u);
  EXPECT_NEAR(view.ledger[observe::Bucket::training], kRows, kRows * 0.001) << "sampled";
}
}  // namespace
}  // namespace distdl::app
