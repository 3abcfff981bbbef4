// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/alerts/alert_watch.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::observe {
namespace {
using ::testing::HasSubstr;
using ::testing::Optional;

AlertRule rule_of(AlertKind kind, std::int64_t steps = 3, double limit = 0) {
  AlertRule rule;
  rule.when = kind;
  rule.steps = steps;
  rule.limit = limit;
  rule.file = "alerts.txt";
  return rule;
}

records::Row step_row(std::int64_t step, double loss, double speed = 100) {
  return {records::StepDone{.step = Step(step), .loss = loss, .samples_per_s = speed},
          1000.0 + static_cast<double>(step)};
}

TEST(AlertCondition, ALossIsRisingWhenItsMeanIsAboveTheLowestOne) {
  AlertCondition condition(rule_of(AlertKind::loss_rising));
  std::int64_t step = 0;
  for (const double loss : {3.0, 2.0, 1.0, 1.0, 1.0}) condition.take(step_row(++step, loss));
  EXPECT_EQ(condition.cause({}), std::nullopt);
  condition.take(step_row(++step, 2));
  EXPECT_EQ(condition.cause({}), std::nullopt) << "a third more, below the limit of a half";
  condition.take(step_row(++step, 2));
  EXPECT_THAT(condition.cause({}), Optional(HasSubstr("the mean loss of 3 steps is 1.667, but was 1")));
  EXPECT_EQ(condition.step(), Step(7));
  condition.take(step_row(++step, 0.5));
  EXPECT_EQ(condition.cause({}), std::nullopt);
}

TEST(AlertCondition, FewerStepsThanTheWindowSayNothing) {
  AlertCondition condition(rule_of(AlertKind::loss_rising, 3));
  condition.take(step_row(1, 1));
  condition.take(step_row(2, 100));
  EXPECT_EQ(condition.cause({}), std::nullopt);
}

TEST(AlertCondition, ThroughputHasHalvedByItsMedian) {
  AlertCondition condition(rule_of(AlertKind::throughput_halved));
  std::int64_t step = 0;
  for (const double speed : {100, 100, 100, 10, 100, 100, 40}) condition.take(step_row(++step, 1, speed));
  EXPECT_EQ(condition.cause({}), std::nullopt) << "one slow step between fast ones";
  condition.take(step_row(++step, 1, 40));
  EXPECT_THAT(condition.cause({}), Optional(HasSubstr("40 samples/s")));
}

TEST(AlertCondition, ALossIsNotFiniteUntilStepsFollow) {
  AlertCondition condition(rule_of(AlertKind::loss_not_finite));
  condition.take(step_row(1, 1));
  EXPECT_EQ(condition.cause({}), std::nullopt);
  condition.take(records::Row{records::RankFailed{.cause_code = "diverged"}, 1002});
  EXPECT_NE(condition.cause({}), std::nullopt);
  condition.take(step_row(3, 1));
  EXPECT_EQ(condition.cause({}), std::nullopt);
}

TEST(AlertCondition, GoodputAndDisksAreComparedWithTheirLimits) {
  const AlertCondition goodput(rule_of(AlertKind::goodput_low, 3, 0.8)), disk(rule_of(AlertKind::disk_filling));
  EXPECT_EQ(goodput.cause({}), std::nullopt) << "not known";
  EXPECT_EQ(goodput.cause({.goodput = 0.8}), std::nullopt);
  EXPECT_THAT(goodput.cause({.goodput = 0.7}), Optional(HasSubstr("goodput is 70.0%, below 80.0%")));
  EXPECT_EQ(disk.cause({.free_share = 0.06}), std::nullopt);
  EXPECT_THAT(disk.cause({.free_share = 0.04}), Optional(HasSubstr("4.0% of the file system")));
}

TEST(AlertRules, MustDoSomethingAndHaveLimitsThatMakeSense) {
  const auto error_of = [](const AlertRule& rule) -> std::string {
    try {
      check(rule, "job.toml:3: ");
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of(rule_of(AlertKind::disk_filling)), "");
  EXPECT_THAT(error_of(rule_of(AlertKind::disk_filling, 3, 1.5)), HasSubstr("job.toml:3: alert.limit is 1.5"));
  EXPECT_THAT(error_of(rule_of(AlertKind::loss_not_finite, 3, 0.5)), HasSubstr("has no meaning"));
  EXPECT_THAT(error_of(rule_of(AlertKind::loss_rising, 0)), HasSubstr("alert.steps is 0"));
  auto rule = rule_of(AlertKind::loss_rising);
  rule.file.clear();
  EXPECT_THAT(error_of(rule), HasSubstr("an alert does nothing"));
}

class Alerts : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  AlertRule rule(const char* command = nullptr) const {
    auto rule = rule_of(AlertKind::loss_rising, 1);
    rule.file = (folder_ / "alerts.txt").string();
    if (command) rule.run = {"sh", "-c", command, (folder_ / "told").string()};
    return rule;
  }
  void step(int number, double loss) const {
    std::ofstream(folder_ / "metrics.jsonl", std::ios::app)
        << fmt::format(R"({{"time":{},"step":{},"loss":{}}})", 1000 + number, number, loss) << "\n";
  }
  std::string text(const char* name) const {
    std::stringstream all;
    all << std::ifstream(folder_ / name).rdbuf();
    return all.str();
  }
  std::int64_t raised() const {
    const auto journal = read_journal(folder_);
    return std::ranges::count_if(journal, &records::Row::is<records::AlertRaised>);
  }

  std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / ("alerts_" + std::to_string(::getpid()));
};

TEST_F(Alerts, AreRaisedOnceForEachCauseAlsoOverRestarts) {
  {
    AlertWatch watch(folder_, {rule()});
    step(1, 1);
    step(2, 9);
    watch.look();
    EXPECT_EQ(raised(), 1);
    EXPECT_THAT(text("alerts.txt"), HasSubstr("loss rising: the mean loss of 1 steps is 9, but was 1"));
    step(3, 8);
    watch.look();
    EXPECT_EQ(raised(), 1);
  }
  AlertWatch watch(folder_, {rule()});
  watch.look();
  EXPECT_EQ(raised(), 1) << "the journal tells that an earlier start has raised it";
  EXPECT_THAT(summarize_run(folder_).alerts, ::testing::ElementsAre(HasSubstr("loss rising: the mean")));
  step(4, 1);
  watch.look();
  EXPECT_TRUE(read_journal(folder_).back().is<records::AlertCleared>());
  EXPECT_TRUE(summarize_run(folder_).alerts.empty());
  step(5, 9);
  watch.look();
  EXPECT_EQ(raised(), 2);
}

TEST_F(Alerts, OfLowGoodputAreRaisedByTheTimesOfTheRun) {
  auto low = rule_of(AlertKind::goodput_low, 3, 0.8);
  low.file = (folder_ / "alerts.txt").string();
  const auto look = [&](double since_job, double since_training) {
    const double now = seconds_since_1970();
    std::ofstream(folder_ / "metrics.jsonl").flush();
    std::ofstream(folder_ / "journal.jsonl")
        << fmt::format("{{\"event\":\"job_started\",\"time\":{:.3f},\"job\":\"7\"}}\n", now - since_job)
        << fmt::format("{{\"event\":\"started\",\"time\":{:.3f},\"ranks\":2}}\n", now - since_training);
    AlertWatch watch(folder_, {low});
    watch.look();
  };
  look(500, 10);
  EXPECT_EQ(raised(), 0) << "the start of a job is most of its first minutes";
  look(4000, 3900);
  EXPECT_EQ(raised(), 0) << "most of it was training";
  look(4000, 1000);
  EXPECT_EQ(raised(), 1);
  EXPECT_THAT(text("alerts.txt"), HasSubstr("goodput is 25."));
}

TEST_F(Alerts, RunACommandThatKnowsTheCause) {
  AlertWatch watch(folder_, {rule("echo $DISTDL_ALERT, $DISTDL_ALERT_CAUSE, $DISTDL_ALERT_STEP, $DISTDL_RUN > $0")});
  step(1, 1);
  step(2, 9);
  watch.look();
  EXPECT_EQ(text("told"), "loss rising, the mean loss of 1 steps is 9, but was 1, 2, " +
                              std::filesystem::absolute(folder_).string() + "\n");
}

TEST_F(Alerts, GoOnAfterACommandThatFailsOrDoesNotEnd) {
  auto slow = rule("exec sleep 1000");
  slow.timeout_seconds = 0.05;
  AlertWatch watch(folder_, {rule("exit 3"), slow, rule("echo told > $0")});
  step(1, 1);
  step(2, 9);
  watch.look();
  EXPECT_EQ(text("told"), "told\n");
  EXPECT_EQ(raised(), 3);
}

TEST_F(Alerts, AThreadLooksALastTimeAtTheEnd) {
  step(1, 1);
  {
    AlertWatch watch(folder_, {rule()});
    watch.start();
    step(2, 9);
  }
  EXPECT_EQ(raised(), 1);
}
}  // namespace
}  // namespace distdl::observe
