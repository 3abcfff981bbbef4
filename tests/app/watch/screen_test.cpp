// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/app/watch/screen.hpp>
#include <distdl/base/env.hpp>

namespace distdl::app {
namespace {
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using Panel = ScreenState::Panel;

constexpr double kNoon = 1772366400;  // 2026-03-01 12:00:00 UTC

/// The golden screens are written anew with DISTDL_WRITE_SCREENS=1.
void expect_screen(const std::string& name, const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  const std::string file = std::string(DISTDL_SOURCE_DIR) + "/tests/app/watch/" + name + ".txt";
  if (env("DISTDL_WRITE_SCREENS")) std::ofstream(file) << text;
  std::ostringstream golden;
  golden << std::ifstream(file).rdbuf();
  EXPECT_EQ(text, golden.str()) << file << "; DISTDL_WRITE_SCREENS=1 writes it anew";
}

void add_curves(RunView& view, std::int64_t steps) {
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto x = static_cast<double>(step);
    view.curves.add("distdl_loss", step, 2.3 * std::exp(-x / 150) + 0.05 * std::sin(x / 7) + 0.1);
    view.curves.add("distdl_accuracy_ratio", step, 0.98 - 0.88 * std::exp(-x / 120));
    view.curves.add("distdl_samples_per_second", step, 4800 + 200 * std::sin(x / 30));
    if (step % 100 == 0) view.curves.add("distdl_validation_accuracy_ratio", step, 0.97 - 0.5 * std::exp(-x / 120));
  }
}

void add_nodes(RunView& view) {
  for (int node = 1; node <= 3; ++node) {
    observe::HealthRow row{.host = fmt::format("n{}", node), .time = kNoon - 10};
    row.health.load = 0.5 * node;
    row.health.free_memory = 0.4;
    view.report.health.push_back(row);
  }
  view.report.summary.at_risk = {"n3 (corrected errors)"};
  view.report.bad_nodes = {{"n4", "slow: matrix product", "17", kNoon - 5000}};
}

/// In mid-run, after a fault and a preemption.
RunView a_run() {
  RunView view{.report = {.folder = "runs/lenet", .id = "3f0c52a9b1d4"}, .now = kNoon, .is_read = true};
  auto& summary = view.report.summary;
  view.report.state = {"training", "", true};
  summary.phase = observe::Phase::training;
  summary.step = Step(500);
  summary.loss = 0.2189;
  summary.total = Step(917);
  summary.ranks = 6;
  summary.job = "17";
  summary.restart = 1;
  summary.checkpoint = observe::SaveSummary{Step(480), kNoon - 42, 0.4};
  summary.snapshot = observe::SaveSummary{Step(490), kNoon - 12, 0.1};
  add_curves(view, 500);
  add_nodes(view);
  view.samples_per_s = 4827;
  view.step_seconds = 0.0199;
  for (int rank = 0; rank < 6; ++rank)
    view.ranks.push_back({.rank = rank,
                          .host = fmt::format("n{}", rank / 2 + 1),
                          .compute = 0.012 + 0.001 * rank,
                          .data = rank == 0 ? 0.001 : 0,
                          .sum = 0.006 - 0.001 * rank,
                          .save = 0.0004,
                          .other = rank == 0 ? 0.0005 : 0});
  view.timeline = {{kNoon - 90000, Colour::none, "job 17 submitted"},
                   {kNoon - 3000, Colour::green, "training begins, 6 ranks"},
                   {kNoon - 2000, Colour::yellow, "saved and stopped at step 246: signal SIGTERM"},
                   {kNoon - 1000, Colour::green, "training goes on from step 246, 6 ranks"},
                   {kNoon - 300, Colour::red, "node lost: n4 does not answer"},
                   {kNoon - 290, Colour::green, "training goes on from step 410, 6 ranks, 7 steps again"}};
  view.saves = {{true, 470, kNoon - 60, 0.1, 0.001}, {false, 480, kNoon - 42, 0.4, 0.002, 3.4e6}};
  view.ledger = {.begin = kNoon - 90000, .end = kNoon};
  view.ledger[observe::Bucket::queued] = 87000;
  view.ledger[observe::Bucket::training] = 2700;
  view.ledger[observe::Bucket::lost_work] = 300;
  view.estimate = {.seconds = 754};
  return view;
}

std::vector<RunView> several_runs() {
  std::vector<RunView> runs{a_run(), a_run(), a_run()};
  runs[1].report.folder = "runs/gpt/";
  runs[1].report.state = {"finished", "all steps are done"};
  runs[1].report.summary.step = Step(917);
  runs[1].estimate = {};
  runs[2] = {.report = {.folder = "runs/vit"}, .now = kNoon};
  return runs;
}

std::vector<std::string> screen(int columns, int rows, ScreenState state = {.is_open = true}) {
  return draw_screen({a_run()}, state, {columns, rows, false, true});
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

class Screen : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(Screen, OfARunAt80x24) {
  expect_screen("run_80x24", screen(80, 24));
}

TEST_F(Screen, OfARunAt200x50) {
  expect_screen("run_200x50", screen(200, 50));
}

TEST_F(Screen, WithoutUtf8) {
  const auto lines = draw_screen({a_run()}, {.is_open = true}, {80, 24, false, false});
  for (const auto& line : lines)
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  expect_screen("run_ascii_80x24", lines);
}

TEST_F(Screen, MarksWhatWasCutOff) {
  const auto lines = screen(40, 24);
  EXPECT_EQ(lines[0], "3f0c52a9b1d4  runs/… 2026-03-01 12:00:00");
  EXPECT_EQ(lines[1], "state       training, 6 ranks, job 17, …");
  EXPECT_TRUE(lines.back().ends_with("…")) << lines.back();
  const auto ascii = draw_screen({a_run()}, {.is_open = true}, {40, 24, false, false});
  EXPECT_EQ(ascii[0], "3f0c52a9b1d4  runs/~ 2026-03-01 12:00:00");
  EXPECT_EQ(ascii[1], "state       training, 6 ranks, job 17, ~");
}

TEST_F(Screen, OfSeveralRuns) {
  expect_screen("list_80x24", draw_screen(several_runs(), {.run = 1}, {80, 24, false, true}));
  auto runs = several_runs();
  for (const double days : {0.2, 3.0}) {
    runs.push_back(a_run());
    runs.back().report.folder = fmt::format("runs/wait-{}", days);
    runs.back().report.state = {"queued", "until Slurm starts it", true};
    runs.back().estimate = {.seconds = days * 86400};
  }
  runs.push_back(a_run());
  runs.back().report.folder = "runs/stuck";
  runs.back().estimate = {.reason = "no step has been measured yet"};
  expect_screen("list_200x50", draw_screen(runs, {.run = 3}, {200, 50, false, true}));
}

TEST_F(Screen, OfOnePanel) {
  expect_screen("timeline_80x24", screen(80, 24, {.is_open = true, .panel = Panel::timeline, .scroll = 1}));
  expect_screen("saves_80x24", screen(80, 24, {.is_open = true, .panel = Panel::saves}));
  auto view = a_run();
  view.saves.push_back({true, 490, kNoon - 12, 0.1, 0.001, 0, {"memory", "partner"}});
  view.report.summary.levels = {
      {"memory", Step(490), kNoon - 12}, {"partner", Step(490), kNoon - 12}, {"disk", Step(480), kNoon - 42}};
  expect_screen("levels_200x50", draw_screen({view}, {.is_open = true, .panel = Panel::saves}, {200, 50, false, true}));
  expect_screen("keys_80x24", screen(80, 24, {.is_open = true, .shows_keys = true}));
}

/// What remains without escape sequences.
std::string plain(const std::string& text) {
  std::string left;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033')
      i = text.find('m', i);
    else
      left += text[i];
  }
  return left;
}

TEST_F(Screen, WithColoursHasTheSameText) {
  const auto lines = draw_screen({a_run()}, {.is_open = true}, {120, 40, true, true}), without = screen(120, 40);
  ASSERT_EQ(lines.size(), without.size());
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(plain(lines[i]), without[i]);
  EXPECT_THAT(joined(lines), HasSubstr("\033[31mnode lost"));
  EXPECT_THAT(joined(without), Not(HasSubstr("\033")));
}

TEST_F(Screen, FitsEverySize) {
  const auto runs = several_runs();
  for (int columns : {1, 2, 7, 19, 20, 41, 80, 149, 150, 300})
    for (int rows : {1, 2, 3, 6, 9, 12, 24, 60})
      for (const bool utf8 : {true, false})
        for (const auto panel :
             {Panel::all, Panel::curves, Panel::ranks, Panel::nodes, Panel::saves, Panel::timeline}) {
          const ScreenLook look{columns, rows, true, utf8};
          const auto lines = draw_screen(runs, {.is_open = true, .panel = panel, .scroll = 3}, look);
          ASSERT_EQ(lines.size(), static_cast<std::size_t>(rows));
          for (const auto& line : lines) ASSERT_LE(width_of(line), columns) << columns << "x" << rows << ": " << line;
        }
  for (int size : {-1, 0, 1, 2, 5}) {
    EXPECT_THAT(draw_screen(runs, {}, {size, size, false, true}), Each(testing::_));
    draw_screen({}, {.is_open = true}, {size, size, false, true});
  }
}

TEST_F(Screen, ShowsARunThatIsBeingOpenedOrCannotBeRead) {
  RunView view{.report = {.folder = "x"}, .now = kNoon};
  EXPECT_THAT(joined(draw_screen({view}, {.is_open = true}, {})), HasSubstr("opening"));
  view.trouble = "no\nmemory";
  EXPECT_THAT(joined(draw_screen({view}, {.is_open = true}, {80, 24, false, true})), HasSubstr("no\\nmemory"));
}

TEST_F(Screen, OfARunWithoutAnyRowSaysSo) {
  RunView view{.report = {.folder = "x"}, .now = kNoon, .is_read = true};
  view.report.state = {"new", "it has not started"};
  const auto text = joined(draw_screen({view}, {.is_open = true}, {80, 24, false, true}));
  EXPECT_THAT(text, HasSubstr("new: it has not started"));
  EXPECT_THAT(text, HasSubstr("no step yet"));
  EXPECT_THAT(text, HasSubstr("no step has been measured yet"));
}

TEST_F(Screen, ShowsTheUtilizationWhereAPeakIsKnown) {
  auto view = a_run();
  const auto drawn = [&] { return joined(draw_screen({view}, {.is_open = true}, {120, 40, false, true})); };
  EXPECT_THAT(drawn(), Not(HasSubstr("MFU")));
  view.report.summary.mfu = 0.4123;
  EXPECT_THAT(drawn(), HasSubstr("per step, MFU 41.2%\n"));
  view.report.summary.hfu = 0.5496;
  EXPECT_THAT(drawn(), HasSubstr("MFU 41.2%, HFU 55.0%\n"));
}

TEST_F(Screen, ShowsNamesAsTheyAreAndNoEscapes) {
  auto view = a_run();
  view.timeline.push_back({kNoon, Colour::none, "n1\033[2J"});
  view.ranks[0].host = "n\033[1m";
  EXPECT_THAT(joined(draw_screen({view}, {.is_open = true}, {120, 40, false, true})), Not(HasSubstr("\033")));
}

TEST_F(Screen, FollowsKeys) {
  const auto runs = several_runs();
  ScreenState state;
  const auto type = [&](Key key, char c = 0) { return press({key, c}, state, runs, {}); };
  type(Key::down);
  type(Key::character, 'j');
  type(Key::down);
  EXPECT_EQ(state.run, 2u) << "the last one";
  type(Key::up);
  type(Key::enter);
  EXPECT_TRUE(state.is_open);
  type(Key::character, 't');
  EXPECT_EQ(state.panel, Panel::timeline);
  for (int i = 0; i < 20; ++i) type(Key::page_down);
  EXPECT_EQ(state.scroll, runs[1].timeline.size() - 1);
  type(Key::up);
  EXPECT_EQ(state.scroll, runs[1].timeline.size() - 2);
  type(Key::character, '?');
  type(Key::escape);
  EXPECT_EQ(state.panel, Panel::timeline) << "only the keys are gone";
  type(Key::escape);
  EXPECT_EQ(state.panel, Panel::all);
  EXPECT_TRUE(state.is_open);
  type(Key::character, 'b');
  EXPECT_FALSE(state.is_open);
  EXPECT_TRUE(type(Key::unknown));
  EXPECT_FALSE(type(Key::character, 'q'));
}

TEST_F(Screen, OfASingleRunStaysOpen) {
  ScreenState state{.is_open = true};
  press({Key::escape}, state, {a_run()}, {});
  EXPECT_TRUE(state.is_open);
}
}  // namespace
}  // namespace distdl::app
