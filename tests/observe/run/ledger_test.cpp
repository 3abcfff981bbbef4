// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/records/row_of.hpp"
#include <distdl/observe/run/ledger.hpp>

namespace distdl::observe {
namespace {

/// Rows of a run, written as a clock goes on.
class Story {
 public:
  Story& at(double time) {
    time_ = time;
    return *this;
  }
  Story& event(const char* name, nlohmann::json fields = nlohmann::json::object()) {
    journal.push_back(records::row_of(name, time_, std::move(fields)));
    return *this;
  }
  Story& started(std::int64_t from, bool interrupted = false) {
    return event("started", {{"resumed_from", from}, {"interrupted", interrupted}});
  }
  /// Steps `from` + 1 .. `to`, each of which ends `seconds` after the one before.
  Story& steps(std::int64_t from, std::int64_t to, double seconds) {
    for (std::int64_t step = from + 1; step <= to; ++step) {
      time_ += seconds;
      metrics.push_back({records::StepDone{.step = Step(step)}, time_});
    }
    return *this;
  }
  Story& launch_ended(int code) { return event("launch_ended", {{"code", code}}); }
  Ledger ledger(std::optional<double> now = {}) const { return ledger_of(journal, metrics, now); }

  std::vector<records::Row> journal, metrics;

 private:
  double time_ = 0;
};

double sum(const Ledger& ledger) {
  return std::accumulate(ledger.seconds.begin(), ledger.seconds.end(), 0.0);
}

/// {bucket: seconds} of all that are not 0.
std::map<std::string, double> table(const Ledger& ledger) {
  std::map<std::string, double> rows;
  for (const auto& entry : kBuckets)
    if (ledger[entry.bucket] != 0) rows[std::string(entry.name)] = std::round(ledger[entry.bucket] * 1e6) / 1e6;
  return rows;
}
using Table = std::map<std::string, double>;

TEST(Ledger, OfARunWithoutTroubleIsQueueStartTrainingAndItsEnd) {
  Story story;
  story.at(100).event("submitted").at(160).event("job_started").at(161).event("launch").at(164).started(0);
  story.steps(0, 10, 2).at(184.5).event("finished").at(185).launch_ended(0).at(186).event("job_ended");
  EXPECT_EQ(table(story.ledger()), (Table{{"queued", 60}, {"start", 4}, {"training", 20.5}, {"other", 1.5}}));
  EXPECT_EQ(story.ledger().wall(), 86);
  EXPECT_EQ(story.ledger(1000).wall(), 86) << "a run that has ended does not go on";
  EXPECT_DOUBLE_EQ(story.ledger().goodput(), 20.5 / 86);
  EXPECT_DOUBLE_EQ(story.ledger().goodput_in_jobs(), 20.5 / 26);
}

TEST(Ledger, TakesTheStallsOfSavesOutOfTraining) {
  Story story;
  story.at(0.5).event("launch").at(1).started(0).steps(0, 10, 1);
  story.event("checkpoint", {{"stall_seconds", 2.5}});
  EXPECT_EQ(table(story.ledger()), (Table{{"start", 0.5}, {"training", 7.5}, {"save stall", 2.5}}));
  story.journal.back().record =
      records::CheckpointSaved{.stall_seconds = 1000};  // more than there was: no bucket falls below 0
  EXPECT_EQ(table(story.ledger()), (Table{{"start", 0.5}, {"save stall", 10}}));
}

TEST(Ledger, KnowsWhatAFailureCosts) {
  Story story;
  story.at(10).event("job_started").at(11).event("launch").at(13).started(0).steps(0, 30, 1);  // the last at 43
  story.at(49).launch_ended(69).at(54).event("launch").at(58).started(20).steps(20, 40, 1).event("finished");
  EXPECT_EQ(table(story.ledger()), (Table{{"start", 3},
                                          {"training", 20 + 20},
                                          {"lost work", 10 + 1},  // steps 21 to 30, and the one that broke off
                                          {"detect", 5},
                                          {"restart wait", 5},
                                          {"recover", 4}}));
}

TEST(Ledger, KnowsWhatEachInterruptionCosts) {
  Story story;
  story.at(10).event("job_started").at(11).event("launch").at(13).started(0).steps(0, 30, 1);      // the last at 43
  story.at(49).launch_ended(69).at(54).event("launch").at(58).started(20, true).steps(20, 40, 1);  // at 78
  story.at(79).event("stopped").at(80).launch_ended(75).at(81).event("requeued").at(181).event("job_started");
  story.at(182).event("launch").at(190).started(40, true).steps(40, 50, 1).at(201).event("finished");
  story.at(300).event("job_started").event("launch").at(310).started(50).steps(50, 60, 1);  // a longer job
  const auto ledger = story.ledger();
  ASSERT_EQ(ledger.interruptions.size(), 2u) << "that a run goes on which had finished is no interruption";
  EXPECT_EQ(ledger.interruptions[0].time, 58);
  EXPECT_DOUBLE_EQ(ledger.interruptions[0].seconds, 10 + 58 - 43);  // steps 21 to 30 again, until training went on
  EXPECT_EQ(ledger.interruptions[1].time, 190);
  EXPECT_DOUBLE_EQ(ledger.interruptions[1].seconds, 190 - 79);
  EXPECT_DOUBLE_EQ(ledger.lost(), 3 + 25 + 111 + 109) << "with the first start, and the wait for the longer job";
}

TEST(Ledger, WhatARankSaysOfItsErrorChangesNothing) {
  Story story, other;
  for (Story* each : {&story, &other}) {
    each->at(100).event("job_started").event("launch").at(110).started(0).steps(0, 10, 1).at(135);
    if (each == &other) each->event("error");
    each->at(140).launch_ended(69).at(150).event("launch").at(155).started(5).steps(5, 10, 1);
  }
  EXPECT_EQ(table(story.ledger()), table(other.ledger()));
  EXPECT_GT(table(story.ledger())["detect"], 0);
}

TEST(Ledger, KnowsWhatARecoveryWithinALaunchCosts) {
  Story story;
  story.at(10).event("job_started").at(11).event("launch").at(13).started(0).steps(0, 30, 1);  // the last at 43
  story.at(47).event("failure").steps(30, 31, 0.5).at(49).event("generation").at(51).started(20).steps(20, 40, 1);
  story.event("finished");
  EXPECT_EQ(table(story.ledger()), (Table{{"start", 3},
                                          {"training", 20 + 20},
                                          {"lost work", 10 + 1 + 0.5},  // also a step that was not awaited
                                          {"detect", 3},
                                          {"recover", 3.5}}));
}

TEST(Ledger, AGenerationWithMoreNodesIsAStartAfterAStop) {
  Story story;
  story.at(10).event("job_started").event("launch").at(13).started(0).steps(0, 30, 1).event("stopped");
  story.at(44).event("generation").at(46).started(30).steps(30, 40, 1).event("finished");
  EXPECT_EQ(table(story.ledger()), (Table{{"start", 3 + 2}, {"training", 40}, {"other", 1}}));
}

TEST(Ledger, AFailureThatEndsTheLaunchWaitsForTheNext) {
  Story story;
  story.at(10).event("job_started").event("launch").at(13).started(0).steps(0, 30, 1);  // the last at 43
  story.at(44).event("failure").at(46).launch_ended(137).at(50).event("launch").at(52).started(30).steps(30, 31, 1);
  EXPECT_EQ(table(story.ledger()),
            (Table{{"start", 3}, {"training", 31}, {"lost work", 1}, {"recover", 2 + 2}, {"restart wait", 4}}));
}

TEST(Ledger, LosesAShareOfWhatOneRowTellsOfManySteps) {
  Story story;
  story.at(1).event("launch").started(0);
  story.at(101).event("progress", {{"step", 100}}).launch_ended(137).event("launch").started(75);
  EXPECT_EQ(table(story.ledger()), (Table{{"training", 75}, {"lost work", 25}}));
  story.launch_ended(137).event("launch").started(0);
  EXPECT_EQ(table(story.ledger()), (Table{{"lost work", 100}}));
}

TEST(Ledger, GoesOnOverRequeues) {
  Story story;
  story.at(0.5).event("submitted").at(10).event("job_started").event("launch").at(12).started(0).steps(0, 8, 1);
  story.event("stopped").at(21).launch_ended(75).at(22).event("requeued").event("job_ended");
  story.at(52).event("job_started").event("launch").at(55).started(8).steps(8, 18, 1);
  EXPECT_EQ(table(story.ledger()), (Table{{"queued", 9.5 + 30}, {"start", 2 + 3}, {"training", 18}, {"other", 2}}));
}

TEST(Ledger, OfAJobThatDiedWithItsNodeUsesTheTimeOfTheRequeue) {
  Story story;
  story.at(1).event("job_started").event("launch").started(0).steps(0, 9, 1);  // the last at 10
  story.at(100).event("job_started", {{"submit_time", 40}}).event("launch").at(105).started(9).steps(9, 10, 1);
  EXPECT_EQ(table(story.ledger()),
            (Table{{"training", 10}, {"lost work", 1}, {"detect", 29}, {"queued", 60}, {"recover", 5}}));
}

TEST(Ledger, CountsTheQueueOfAJobThatNobodyNoted) {
  Story story;
  story.at(100).event("job_started", {{"submit_time", 40}}).event("launch").at(101).started(0);
  EXPECT_EQ(table(story.ledger()), (Table{{"queued", 60}, {"start", 1}}));
}

TEST(Ledger, OfAChainWaitsForTheNextLinkNotForTheUser) {
  const auto of = [](const char* job) { return nlohmann::json{{"job", job}}; };
  Story story;
  story.at(1).event("submitted", of("1")).event("submitted", of("2")).at(11).event("job_started", of("1"));
  story.at(12).event("job_ended").at(20).event("job_started", of("2"));
  story.at(21).event("job_ended").at(50).event("submitted", of("3")).at(60).event("job_started", of("3"));
  EXPECT_EQ(table(story.ledger()), (Table{{"queued", 10 + 8 + 10}, {"start", 2}, {"other", 29}}));
}

TEST(Ledger, OfARunThatGoesOnEndsNow) {
  Story story;
  story.at(1).event("submitted");
  EXPECT_EQ(table(story.ledger(5)), (Table{{"queued", 4}}));
  story.at(6).event("job_started").event("launch").at(8).started(0).steps(0, 2, 1);
  EXPECT_EQ(table(story.ledger(12)), (Table{{"queued", 5}, {"start", 2}, {"training", 4}}));
  EXPECT_EQ(story.ledger(3).wall(), 9) << "another clock";
}

TEST(Ledger, OfRowsOf01WithoutTimesOfStepsKnowsTheRest) {
  Story story;
  story.at(1).started(0);
  story.metrics = std::vector<records::Row>(5, {records::StepDone{.step = Step(3)}});
  story.at(11).event("checkpoint").at(30).started(10).at(40).event("finished");
  EXPECT_EQ(table(story.ledger()), (Table{{"training", 20}, {"other", 19}}));
}

TEST(Ledger, IsEmptyWithoutRows) {
  EXPECT_EQ(ledger_of({}, {}, 5).wall(), 0);
  EXPECT_EQ(ledger_of({}, {}, 5).goodput(), 0);
}

/// Any rows, in any order, with any times.
std::vector<records::Row> random_rows(std::mt19937& random, bool of_steps) {
  static const std::array<const char*, 17> kEvents{
      "submitted", "job_started",  "launch",    "started",  "progress", "checkpoint",
      "snapshot",  "save_failed",  "stopped",   "finished", "failure",  "generation",
      "requeued",  "launch_ended", "job_ended", "deadline", "nonsense"};
  const auto number = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  std::vector<records::Row> rows(static_cast<std::size_t>(number(of_steps ? 200 : 60)));
  double time = 1000 + number(100);
  std::int64_t step = 0;
  for (records::Row& row : rows) {
    time += number(20) == 0 ? -number(50) : number(100) / 7.0;
    const double told = number(30) == 0 ? 0 : time;
    step = number(10) == 0 ? number(300) : step + 1;
    nlohmann::json fields;
    if (of_steps || number(3) == 0) fields["step"] = step;
    if (!of_steps)
      fields.update({{"job", std::to_string(number(3))},
                     {"resumed_from", number(300)},
                     {"code", std::array{0, 69, 71, 75, 76, 137}[static_cast<std::size_t>(number(5))]},
                     {"stall_seconds", number(2) * number(100) / 3.0},
                     {"submit_time", number(1) * (time - number(60))},
                     {"asked_to_stop", number(4) == 0}});
    row = records::row_of(of_steps ? "" : kEvents[static_cast<std::size_t>(number(kEvents.size() - 1))], told, fields);
  }
  return rows;
}

TEST(Ledger, PutsEachSecondOfAnyJournalIntoOneBucket) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const auto journal = random_rows(random, false), metrics = random_rows(random, true);
    const auto now = seed % 3 ? std::optional<double>(2000.0 + seed) : std::nullopt;
    const Ledger ledger = ledger_of(journal, metrics, now);
    ASSERT_NEAR(sum(ledger), ledger.wall(), 1e-6 * std::max(1.0, ledger.wall())) << "seed " << seed;
    for (const auto& entry : kBuckets) ASSERT_GE(ledger[entry.bucket], -1e-6) << entry.name << ", seed " << seed;
    ASSERT_GE(ledger.wall(), 0);
  }
}

/// A run of a state machine that also knows the true buckets: the ledger must find them.
TEST(Ledger, FindsTheBucketsOfRandomRuns) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto seconds = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random) * 1.0; };
    Story story;
    Table truth;
    double time = 1000;
    const auto pass = [&](const char* bucket, double length) {
      truth[bucket] += length;
      time += length;
      return time;
    };
    std::int64_t step = 0, saved = 0;
    story.at(time).event("submitted");
    story.at(pass("queued", seconds(100))).event("job_started");
    for (int launch = 0, last = static_cast<int>(seconds(6)); launch < last; ++launch) {
      story.at(pass(launch ? "restart wait" : "start", seconds(9))).event("launch");
      story.at(pass(launch ? "recover" : "start", seconds(9))).started(saved);
      truth["training"] -= static_cast<double>(step - saved);
      truth["lost work"] += static_cast<double>(step - saved);
      const auto more = static_cast<std::int64_t>(seconds(50));
      story.at(time).steps(saved, saved + more, 1);
      pass("training", static_cast<double>(more));
      step = saved + more;
      saved += static_cast<std::int64_t>(seconds(static_cast<int>(more))) - 1;
      if (launch + 1 == last) break;
      pass("lost work", 1);
      story.at(pass("detect", seconds(30))).launch_ended(69);
    }
    std::erase_if(truth, [](const auto& row) { return row.second == 0; });
    ASSERT_EQ(table(story.ledger()), truth) << "seed " << seed;
  }
}

}  // namespace
}  // namespace distdl::observe
