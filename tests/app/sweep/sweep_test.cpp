// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/app/sweep/sweep_plan.hpp>
#include <distdl/app/sweep/sweep_report.hpp>
#include <distdl/app/sweep/tournament.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kHead = "[sweep]\njob = \"job.toml\"\nfolder = \"sweep\"\n";
const std::string kVary = "[vary]\noptim.learning_rate = [0.1, 0.01]\n";

Sweep sweep_of(const std::string& text) {
  return sweep_from(text, "sweep.toml");
}

std::string error_of(const std::string& text) {
  try {
    sweep_of(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SweepFile, OfAGridHasEveryCombination) {
  const auto sweep = sweep_of(kHead +
                              "[vary]\noptim.learning_rate = [0.1, 1e-3]\nmodel.hidden = [[16], [32, 16]]\n"
                              "optim.name = [\"sgd\"]\n");
  const auto points = points_of(sweep);
  ASSERT_EQ(points.size(), 4u);
  std::set<SweepPoint> different(points.begin(), points.end());
  EXPECT_EQ(different.size(), 4u);
  for (const auto& point : points) EXPECT_EQ(point.size(), 3u);
  EXPECT_THAT(points[0], ::testing::Contains("optim.name='sgd'"));
  EXPECT_THAT(points[0], ::testing::Contains("model.hidden=[ 16 ]"));
  EXPECT_EQ(name_of_run(7), "0007");
}

TEST(SweepFile, SaysWhatIsWrong) {
  EXPECT_THAT(error_of(kVary), HasSubstr("there is no table [sweep]"));
  EXPECT_THAT(error_of(kHead), HasSubstr("there is no table [vary]"));
  EXPECT_THAT(error_of("[sweep]\njob = \"job.toml\"\n" + kVary), HasSubstr("sweep.folder is missing"));
  EXPECT_THAT(error_of(kHead + "sed = 1\n" + kVary),
              HasSubstr("sweep.toml:4: unknown key \"sweep.sed\"; did you mean"));
  EXPECT_THAT(error_of(kHead + "method = \"best\"\n" + kVary), HasSubstr("\"sweep.method\" must be \"grid\""));
  EXPECT_THAT(error_of(kHead + "method = \"random\"\n" + kVary), HasSubstr("sweep.runs is 0"));
  EXPECT_THAT(error_of(kHead + "runs = 3\n" + kVary), HasSubstr("no meaning for a grid"));
  EXPECT_THAT(error_of(kHead + "[vary]\ntrain.seed = { min = 1, max = 9 }\n"), HasSubstr("a grid needs a list"));
  EXPECT_THAT(error_of(kHead + "[vary]\ntrain.seed = 3\n"), HasSubstr("must have a list of values"));
  EXPECT_THAT(error_of(kHead + "[vary]\nrun.dir = [\"a\"]\n"), HasSubstr("leave out run.dir"));
  EXPECT_THAT(error_of(kHead + "method = \"halving\"\nruns = 9\n" + kVary), HasSubstr("sweep.first_steps is 0"));
  EXPECT_THAT(error_of("[sweep\n"), HasSubstr("sweep.toml:1:"));
}

TEST(SweepPoints, AreDrawnBySeedAndNumberAlone) {
  const std::string text = kHead + "method = \"random\"\nseed = 7\n";
  const std::string vary =
      "[vary]\noptim.learning_rate = { min = 1e-4, max = 1e-1, log = true }\ntrain.epochs = { min = 1, max = 3 }\n"
      "optim.momentum = [0.8, 0.9]\n";
  const auto few = points_of(sweep_of(text + "runs = 3\n" + vary)),
             many = points_of(sweep_of(text + "runs = 200\n" + vary));
  ASSERT_EQ(many.size(), 200u);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  std::map<std::string, int> epochs, momenta;
  int small = 0;
  for (const auto& point : many)
    for (const std::string& set : point) {
      const auto value = set.substr(set.find('=') + 1);
      if (set.starts_with("train.epochs")) ++epochs[value];
      if (set.starts_with("optim.momentum")) ++momenta[value];
      if (!set.starts_with("optim.learning_rate")) continue;
      EXPECT_GE(std::stod(value), 1e-4);
      EXPECT_LE(std::stod(value), 1e-1);
      small += std::stod(value) < std::sqrt(1e-4 * 1e-1);
    }
  EXPECT_EQ(epochs.size(), 3u);
  for (const auto& [value, count] : epochs) EXPECT_GT(count, 30) << value;
  EXPECT_EQ(momenta.size(), 2u);
  EXPECT_NEAR(small, 100, 30) << "of a logarithmic range, half are below the geometric mean";
  EXPECT_NE(many, points_of(sweep_of(kHead + "method = \"random\"\nseed = 8\nruns = 200\n" + vary)));
}

/// A run that was evaluated at `steps` with these losses.
SweptRun run_at(std::int64_t steps, std::map<std::int64_t, double> losses,
                SweptRun::State state = SweptRun::State::paused) {
  SweptRun run{.state = state, .steps = steps, .values = std::move(losses)};
  if (state == SweptRun::State::paused || state == SweptRun::State::finished) run.value = run.value_at(steps);
  return run;
}

Sweep halving(int runs) {
  return sweep_of(kHead + "method = \"halving\"\nfirst_steps = 10\nkeep_one_in = 3\nruns = " + std::to_string(runs) +
                  "\n" + kVary);
}

TEST(SweepPlan, OfAGridTrainsAllRunsThatHaveNotEnded) {
  const auto sweep = sweep_of(kHead + kVary);
  std::vector<SweptRun> runs(2);
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(0, 1));
  runs[0] = run_at(20, {{20, 0.5}}, SweptRun::State::finished);
  runs[1] = run_at(5, {}, SweptRun::State::unfinished);
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(1));
  EXPECT_EQ(next_rung(sweep, runs).end_at, 0);
  runs[1].state = SweptRun::State::failed;
  EXPECT_THAT(next_rung(sweep, runs).left, IsEmpty());
}

TEST(SweepPlan, OfHalvingLetsTheBestGoOnForMoreSteps) {
  const auto sweep = halving(9);
  SweepDecisions decisions;
  const auto decide = [&](const std::vector<SweptRun>& runs) {
    const auto rung = next_rung(sweep, runs, decisions);
    EXPECT_THAT(rung.left, IsEmpty());
    decisions.rungs.resize(static_cast<std::size_t>(rung.number - 1));
    decisions.rungs.push_back(decide_rung(sweep, runs, rung, decisions));
  };
  std::vector<SweptRun> runs(9);
  EXPECT_EQ(next_rung(sweep, runs).end_at, 10);
  EXPECT_EQ(next_rung(sweep, runs).left.size(), 9u);
  for (int i = 0; i < 9; ++i) runs[static_cast<std::size_t>(i)] = run_at(10, {{10, i == 4 ? 0.01 : 1.0 + i}});
  runs[0] = run_at(7, {}, SweptRun::State::failed);
  decide(runs);
  auto rung = next_rung(sweep, runs, decisions);
  EXPECT_EQ(rung.end_at, 30);
  EXPECT_THAT(rung.left, ElementsAre(1, 2, 4));
  runs[2] = run_at(17, {}, SweptRun::State::unfinished);  // stopped in between, and its records are gone
  EXPECT_THAT(next_rung(sweep, runs, decisions).left, ElementsAre(1, 2, 4));
  for (const std::size_t run : {1u, 2u, 4u})
    runs[run] = run_at(30, {{10, run == 4 ? 0.01 : 1.0 + run}, {30, run == 2 ? 0.1 : 0.5}});
  decide(runs);
  rung = next_rung(sweep, runs, decisions);
  EXPECT_EQ(rung.end_at, 0) << "one is left, and trains to its end";
  EXPECT_THAT(rung.left, ElementsAre(2));
  runs[2].state = SweptRun::State::finished;
  EXPECT_TRUE(next_rung(sweep, runs, decisions).is_last());
  EXPECT_EQ(ranking(sweep, runs).front(), 2u) << "although run 4 had a lower loss before it was left behind";
  EXPECT_EQ(ranking(sweep, runs).back(), 0u);
}

TEST(SweepPlan, OfHalvingDoesNotBelieveTheRowsOfARunThatHasNotEnded) {
  const auto sweep = halving(3);
  std::vector<SweptRun> runs(3, run_at(10, {{10, 1.0}}));
  runs[1] = run_at(10, {{10, 0.5}}, SweptRun::State::unfinished);  // killed after the row, before the checkpoint
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(1));
  runs[1].saved = 10;  // killed before result.json
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(1));
  runs[1].saved = 20;  // it went on before sweeps noted what they decided
  EXPECT_THAT(next_rung(sweep, runs).left, IsEmpty());
  EXPECT_THAT(*decide_rung(sweep, runs, next_rung(sweep, runs), {}).going_on, ElementsAre(1));
}

TEST(Halving, RungsAreTheSameAfterTheyWereText) {
  const HalvingRung rung{2, 30, {{1, 0.1}, {4, std::nullopt}}, std::vector<std::size_t>{1}};
  const auto copy = rung_from(to_text(rung), "rung-0002.json");
  EXPECT_EQ(std::tie(copy.rung, copy.end_at, copy.values, copy.going_on),
            std::tie(rung.rung, rung.end_at, rung.values, rung.going_on));
  EXPECT_THROW(rung_from("{}", "rung-0002.json"), StorageError);
}

TEST(Halving, DecidesAgainWhereRunsThatHadFailedAreRetried) {
  data::ScratchFolder folder;
  write_rung(folder.path(), {1, 10, {{0, 1.0}, {1, 2.0}, {2, std::nullopt}}, std::vector<std::size_t>{0}});
  reopen_rungs(folder.path(), {1});
  EXPECT_TRUE(read_rungs(folder.path()).at(0).going_on.has_value()) << "run 1 has not failed there";
  reopen_rungs(folder.path(), {2});
  const SweepDecisions decisions{0, read_rungs(folder.path())};
  std::vector<SweptRun> runs(3);
  runs[0] = run_at(40, {{40, 0.3}}, SweptRun::State::finished);
  EXPECT_THAT(next_rung(halving(3), runs, decisions).left, ElementsAre(2)) << "the others are known";
  runs[2] = run_at(10, {{10, 0.9}});
  const auto rung = next_rung(halving(3), runs, decisions);
  EXPECT_THAT(rung.left, IsEmpty());
  EXPECT_THAT(*decide_rung(halving(3), runs, rung, decisions).going_on, ElementsAre(2));
}

TEST(SweepPlan, OfHalvingTakesAJobThatIsShorterThanItsSteps) {
  const auto sweep = halving(3);
  std::vector<SweptRun> runs;
  for (const double loss : {3.0, 1.0, 2.0}) runs.push_back(run_at(8, {{8, loss}}, SweptRun::State::finished));
  const auto rung = next_rung(sweep, runs);
  EXPECT_THAT(rung.left, IsEmpty());
  const SweepDecisions decisions{0, {decide_rung(sweep, runs, rung, {})}};
  EXPECT_TRUE(next_rung(sweep, runs, decisions).is_last());
  EXPECT_THAT(ranking(sweep, runs), ElementsAre(1, 2, 0));
}

Sweep tournament(int rounds) {
  return sweep_of(kHead + "method = \"tournament\"\nfirst_steps = 10\nruns = 5\nrounds = " + std::to_string(rounds) +
                  "\n" + kVary);
}

TEST(Tournament, HoldsARoundWhenAllRunsAreThere) {
  const auto sweep = tournament(2);
  std::vector<SweptRun> runs(5, run_at(10, {{10, 1.0}}));
  runs[3] = run_at(4, {}, SweptRun::State::unfinished);
  EXPECT_EQ(next_rung(sweep, runs).end_at, 10);
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(3));
  runs[3] = run_at(10, {{10, 1.0}}, SweptRun::State::unfinished);
  EXPECT_THAT(next_rung(sweep, runs).left, ElementsAre(3)) << "a row is not a checkpoint";
  runs[3] = run_at(4, {}, SweptRun::State::failed);
  EXPECT_THAT(next_rung(sweep, runs).left, IsEmpty());
  EXPECT_FALSE(next_rung(sweep, runs).is_last());
  EXPECT_EQ(next_rung(sweep, runs, {.rounds_held = 1}).end_at, 20);
  EXPECT_EQ(next_rung(sweep, runs, {.rounds_held = 2}).end_at, 0);
  for (auto& run : runs) run.state = SweptRun::State::finished;
  EXPECT_TRUE(next_rung(sweep, runs, {.rounds_held = 2}).is_last());
}

TEST(Tournament, DrawsPairsAndTheBetterOneWins) {
  const auto sweep = tournament(2);
  std::vector<SweptRun> runs;
  for (int i = 0; i < 5; ++i) runs.push_back(run_at(10, {{10, 1.0 + i}}));
  runs[2].state = SweptRun::State::failed;
  const auto first = draw_round(sweep, runs, 1);
  EXPECT_EQ(first.step, 10);
  ASSERT_EQ(first.meetings.size(), 2u);
  std::set<std::size_t> met;
  for (const auto& [winner, loser] : first.meetings) {
    EXPECT_LT(winner, loser) << "lower numbers have lower losses";
    met.insert({winner, loser});
  }
  EXPECT_EQ(met, (std::set<std::size_t>{0, 1, 3, 4}));
  EXPECT_EQ(draw_round(sweep, runs, 1).meetings, first.meetings);
  std::set<std::vector<std::size_t>> winners;
  for (auto& run : runs) run.state = SweptRun::State::paused;
  for (int round = 1; round <= 20; ++round) {
    for (auto& run : runs) run = run_at(round * 10, {{round * 10, 1.0}});
    std::vector<std::size_t> all;
    for (const auto& each : draw_round(sweep, runs, round).meetings) all.insert(all.end(), {each.winner, each.loser});
    winners.insert(all);
  }
  EXPECT_GT(winners.size(), 5u) << "each round has other pairs";
}

TEST(Tournament, RoundsAreTheSameAfterTheyWereText) {
  const TournamentRound round{3, 30, {{1, 0}, {2, 4}}, true};
  const auto copy = round_from(to_text(round), "round-0003.json");
  EXPECT_EQ(std::tuple(copy.round, copy.step, copy.is_held), std::tuple(3, 30, true));
  EXPECT_EQ(copy.meetings, round.meetings);
  EXPECT_THROW(round_from("{}", "round-0003.json"), StorageError);
}

TEST(Tournament, NeedsModelsThatFitAllRuns) {
  const std::string head = kHead + "method = \"tournament\"\nfirst_steps = 10\nruns = 2\nrounds = 1\n[vary]\n";
  EXPECT_THAT(error_of(head + "model.hidden = [[1], [2]]\n"),
              HasSubstr("\"model.hidden\" must be the same for all runs"));
  EXPECT_EQ(error_of(head + "optim.momentum = [0.8, 0.9]\n"), "no error");
}

TEST(SweepReport, ShowsTheBestRunFirst) {
  const auto sweep = sweep_of(kHead + kVary);
  std::vector<SweptRun> runs{run_at(20, {{10, 0.4}, {20, 0.5}}, SweptRun::State::finished),
                             run_at(20, {{20, 0.25}}, SweptRun::State::finished)};
  EXPECT_EQ(to_text(sweep, runs),
            "RUN      STATE  STEPS    LOSS  optim.learning_rate\n"
            "0001  finished     20  0.2500                 0.01\n"
            "0000  finished     20  0.4000                  0.1\n"
            "sweep in sweep: 2 of 2 runs finished; best: 0001, loss 0.2500, optim.learning_rate=0.01\n");
  EXPECT_EQ(sweep_line(sweep, std::vector<SweptRun>(2)), "sweep in sweep: 0 of 2 runs finished\n");
}
}  // namespace
}  // namespace distdl::app
