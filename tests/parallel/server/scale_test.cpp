// SPDX-License-Identifier: Apache-2.0
// Many workers and servers. DISTDL_WORKERS=1000 tries as many, with a tenth as many servers, and prints a table.
#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parallel/server/timed_run.hpp"
#include <distdl/base/env.hpp>
#include <distdl/parallel/server/scheduler.hpp>
#include <distdl/parallel/server/server.hpp>

namespace distdl::parallel::server::simulation {
namespace {

#ifdef DISTDL_SANITIZED
constexpr int kWorkers = 50;
#else
constexpr int kWorkers = 100;
#endif
constexpr int kWorkersOfAServer = 10;
constexpr double kCompute = 0.1;  // seconds, on average

struct Scenario {
  std::string_view mode, bound;
  TimedRun run;
};

TimedRun run_of(Mode mode, int workers) {
  TimedRun run;
  run.workers = workers;
  run.rules = {.mode = mode, .staleness = mode == Mode::bounded ? 4 : 0, .microbatches = workers, .steps = 10};
  run.rules.ranges = workers / kWorkersOfAServer;
  run.rules.late_ticks = 1000;
  run.bandwidth = run.range_bytes * workers / kCompute * 4;
  return run;
}

/// Each lets servers, links or the scheduler do half of what the workers could have done.
std::array<Scenario, 6> scenarios(int workers) {
  const double demand = 2 * kCompute / workers;
  const auto with = [&](Mode mode, auto change) {
    TimedRun run = run_of(mode, workers);
    change(run);
    return run;
  };
  const auto links = [&](TimedRun& run) { run.bandwidth = 2 * run.range_bytes / demand; };
  const auto updates = [&](TimedRun& run) { run.update = demand / 2; };
  const auto schedule = [&](TimedRun& run) { run.schedule = demand; };
  return {{{"asynchronous", "workers", run_of(Mode::asynchronous, workers)},
           {"bounded", "workers", run_of(Mode::bounded, workers)},
           {"asynchronous", "links", with(Mode::asynchronous, links)},
           {"asynchronous", "updates", with(Mode::asynchronous, updates)},
           {"bounded", "scheduler", with(Mode::bounded, schedule)},
           {"synchronous", "workers", run_of(Mode::synchronous, workers)}}};
}

TEST(ServerScale, NothingBoundsTheRateButWhatTheFormulaNames) {
  const auto asked = env_integer("DISTDL_WORKERS");
  const int workers = static_cast<int>(asked.value_or(kWorkers));
  if (asked)
    fmt::print(
        "| mode | bound by | formula (microbatches/s) | simulated | ratio | scheduler (us of a lease) | all (us of a "
        "message) | versions |\n|---|---|---|---|---|---|---|---|\n");
  for (const Scenario& scenario : scenarios(workers)) {
    const Bounds bounds = bounds_of(scenario.run);
    const double formula = bounds.least();
    const TimedOutcome outcome = simulate(scenario.run);
    const double ratio = outcome.rate / formula;
    const auto line =
        fmt::format("| {} | {} | {:.0f} | {:.0f} | {:.3f} | {:.2f} | {:.2f} | {} |", scenario.mode, scenario.bound,
                    formula, outcome.rate, ratio, 1e6 * outcome.scheduler_seconds / static_cast<double>(outcome.leases),
                    1e6 * outcome.seconds / static_cast<double>(outcome.messages), outcome.most_versions);
    if (asked) fmt::print("{}\n", line);
    EXPECT_GT(ratio, scenario.mode == "synchronous" ? 0.8 : 0.9) << line;
    EXPECT_LT(ratio, 1.15) << line;  // the scheduler gets fewer questions than the formula counts
    const double named = scenario.bound == "links"       ? bounds.links
                         : scenario.bound == "updates"   ? bounds.updates
                         : scenario.bound == "scheduler" ? bounds.scheduler
                                                         : bounds.workers;
    EXPECT_EQ(named, formula) << "the scenario does not show what it is for";
  }
}

/// Processor time of a question or update, the least of three.
double seconds_of(int times, const std::function<void()>& what) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    what();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least / times;
}

constexpr int kQuestions = 20'000;
constexpr Node kServer{-1}, kPartner{-2};

/// With 25 times as many workers: what grows with them would take so much longer.
void expect_no_longer(std::string_view name, const std::function<double(int workers)>& seconds) {
  const auto asked = env_integer("DISTDL_WORKERS");
  const int few = 40, many = static_cast<int>(asked.value_or(25 * few));
  const double with_few = seconds(few), with_many = seconds(many);
  if (asked)
    fmt::print("{}: {:.2f} us with {} workers, {:.2f} with {}\n", name, 1e6 * with_few, few, 1e6 * with_many, many);
  EXPECT_LT(with_many, 8 * with_few) << name << ": " << with_few;
}

/// All ask in turn. A step has so many microbatches for each worker.
void ask_in_turn(Mode mode, int workers, double microbatches) {
  const Rules rules{.mode = mode,
                    .microbatches = static_cast<std::int64_t>(microbatches * workers),
                    .steps = 2 * kQuestions,
                    .has_partners = false};
  std::set<Node> nodes;
  for (int i = 0; i < workers; ++i) nodes.insert(Node(i));
  Scheduler scheduler(rules, Leadership(1), {kServer}, nodes);
  scheduler.receive(kServer, Inventory{Leadership(1), 1, {{0, Term(1), true, {}, true, {}}}});
  std::vector<Ask> asks(nodes.size());
  for (int i = 0; i < kQuestions; ++i) {
    scheduler.receive(Node(i % workers), asks[static_cast<std::size_t>(i % workers)]);
    for (const Action& action : scheduler.take())
      if (const auto* send = std::get_if<Send>(&action))
        if (const auto* lease = std::get_if<Lease>(&send->message))
          asks[static_cast<std::size_t>(send->to.value)] = {lease->id, lease->microbatch, Phase::idle, true};
  }
}

TEST(ServerScale, AQuestionTakesTheSchedulerNoLongerWithManyWorkers) {
  expect_no_longer("a question", [](int workers) {
    return seconds_of(kQuestions, [&] { ask_in_turn(Mode::asynchronous, workers, 1); });
  });
}

TEST(ServerScale, AQuestionTakesNoLongerWhileManyWorkersWait) {
  expect_no_longer("a question while others wait", [](int workers) {
    return seconds_of(kQuestions, [&] { ask_in_turn(Mode::synchronous, workers, 0.25); });
  });
}

/// Each worker reads another version, and no update of a step is with the partner before all have been pushed.
void push_in_turn(int workers) {
  const Rules rules{.mode = Mode::asynchronous, .microbatches = workers, .steps = kQuestions / workers};
  Server server(rules, kServer, {{kServer, kPartner, Term(1)}});
  for (std::int64_t step = 0; step < rules.steps; ++step)
    for (const bool pulls : {true, false})
      for (int worker = 0; worker < workers; ++worker) {
        const Microbatch microbatch(step * workers + worker);
        const LeaseId lease{Leadership(1), microbatch.value};
        if (!pulls) {
          server.receive(Node(worker), Push{0, lease, microbatch});
        } else {
          server.receive(Node(worker), Pull{0, lease, microbatch});
          if (step > 0) server.receive(kPartner, Replicated{0, Term(1), microbatch.value - workers + 1});
        }
        server.take();
      }
}

TEST(ServerScale, AnUpdateTakesAServerNoLongerWithManyWorkers) {
  expect_no_longer("an update", [](int workers) { return seconds_of(kQuestions, [&] { push_in_turn(workers); }); });
}

}  // namespace
}  // namespace distdl::parallel::server::simulation
