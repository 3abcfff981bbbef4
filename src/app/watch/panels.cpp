// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

#include <distdl/app/watch/panels.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
/// "12:03:04", or with the day if it is another one than that of `now`.
std::string clock_text(double time, double now) {
  constexpr std::size_t kDate = 10;  // characters of "2026-03-01"
  const auto text = time_text(time);
  return text.substr(0, kDate) == time_text(now).substr(0, kDate) ? text.substr(kDate + 1) : text.substr(kDate - 5);
}

Colour colour_of_state(const RunState& state) {
  if (state.word == "training" || state.word == "finished") return Colour::green;
  if (state.is_live) return Colour::yellow;
  return state.word == "stopped" || state.word == "new" || state.word == "ended" ? Colour::yellow : Colour::red;
}

std::string labelled(const ScreenLook& look, std::string_view name, const std::string& text) {
  constexpr int kLabel = 12;
  return paint(look, fitted(look, name, kLabel), Colour::cyan) + text;
}

std::string state_text(const RunView& view, const ScreenLook& look) {
  const auto& report = view.report;
  std::string text = paint(look, report.state.word, colour_of_state(report.state));
  if (!report.state.explanation.empty()) text += ": " + printable(report.state.explanation);
  if (report.summary.ranks > 0)
    text += fmt::format(", {} {}", report.summary.ranks, report.summary.ranks == 1 ? "rank" : "ranks");
  const auto& job = report.job ? report.job->job : report.summary.job;
  if (!job.empty()) text += ", job " + printable(job);
  if (report.job && !report.job->nodes.empty()) text += " on " + printable(report.job->nodes);
  if (report.summary.restart > 0) text += fmt::format(", restart {}", report.summary.restart);
  return text;
}

std::string progress_text(const RunView& view, const ScreenLook& look) {
  const auto& summary = view.report.summary;
  if (!summary.step) return "no step yet";
  if (!summary.total || summary.total->value <= 0) return fmt::format("step {}", *summary.step);
  const double fraction = static_cast<double>(summary.step->value) / static_cast<double>(summary.total->value);
  auto text = fmt::format("{:3.0f}%  step {}/{}", 100 * fraction, *summary.step, *summary.total);
  if (const auto left = estimate_text(view); !left.empty()) text += "  " + left;
  constexpr int kLabel = 12, kNarrowest = 10, kWidest = 40;
  const int bar = std::clamp(look.columns - kLabel - 2 - width_of(text), kNarrowest, kWidest);
  return paint(look, progress_bar(fraction, bar, look.with_utf8), Colour::cyan) + " " + text;
}

std::string saves_text(const RunView& view) {
  std::vector<std::string> parts;
  const auto& summary = view.report.summary;
  const auto add = [&](const char* name, const std::optional<observe::SaveSummary>& save) {
    if (save) parts.push_back(fmt::format("{} {}, {} ago", name, save->step, duration_text(view.now - save->time)));
  };
  add("step", summary.checkpoint);
  if (summary.levels.empty())
    add("snapshot at step", summary.snapshot);
  else
    parts.push_back(
        fmt::format("{}, newest {} ago", levels_text(summary.levels),
                    duration_text(view.now - std::ranges::max(summary.levels, {}, &observe::LevelSummary::time).time)));
  if (view.failed_saves > 0) parts.push_back(fmt::format("{} failed", view.failed_saves));
  if (view.skipped_saves > 0) parts.push_back(fmt::format("{} skipped", view.skipped_saves));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> chart_of(const char* name, const Curve& curve, const Curve& validation, const ScreenLook& look,
                                  int columns, int rows) {
  auto title = std::string(name);
  if (!curve.points().empty()) title += fmt::format(" {:.4g}", curve.points().back().value);
  if (!validation.points().empty())
    title +=
        fmt::format(", validation{} {:.4g}", curve.points().empty() ? "" : " (o)", validation.points().back().value);
  std::vector<std::string> lines{paint(look, fitted(look, title, columns), Colour::cyan)};
  const std::vector<ChartSeries> series{{curve.points(), Colour::green}, {validation.points(), Colour::yellow}};
  for (const auto& line : draw_chart(series, {columns, rows - 1, look.with_utf8, look.with_colour}))
    lines.push_back(line);
  return lines;
}

/// A part of a rank's bar.
struct PhaseLook {
  const char* name;
  double RankPhases::*seconds;
  const char *utf8, *ascii;
  Colour colour;
};
constexpr std::array<PhaseLook, 5> kPhases{{{"compute", &RankPhases::compute, "█", "#", Colour::green},
                                            {"data", &RankPhases::data, "▓", "d", Colour::yellow},
                                            {"sum", &RankPhases::sum, "▒", "s", Colour::cyan},
                                            {"save", &RankPhases::save, "░", "w", Colour::red},
                                            {"other", &RankPhases::other, "·", ".", Colour::none}}};

double total_of(const RankPhases& rank) {
  double total = 0;
  for (const auto& phase : kPhases) total += rank.*phase.seconds;
  return total;
}

std::string cells(const ScreenLook& look, const PhaseLook& phase, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += look.with_utf8 ? phase.utf8 : phase.ascii;
  return paint(look, text, count > 0 ? phase.colour : Colour::none);
}

/// `longest`: seconds of a whole bar.
std::string phases_bar(const RankPhases& rank, double longest, int width, const ScreenLook& look) {
  std::string bar;
  double sum = 0;
  int done = 0;
  for (const auto& phase : kPhases) {
    sum += rank.*phase.seconds;
    const int end = static_cast<int>(std::lround(std::min(1.0, longest > 0 ? sum / longest : 0) * width));
    bar += cells(look, phase, end - done);
    done = std::max(done, end);
  }
  return bar + std::string(static_cast<std::size_t>(width - done), ' ');
}
}  // namespace

std::string paint(const ScreenLook& look, std::string_view text, Colour colour) {
  return coloured(text, look.with_colour ? colour : Colour::none);
}

std::string fitted(const ScreenLook& look, std::string_view text, int columns) {
  auto cut = cut_with_mark(text, columns, look.with_utf8);
  cut.append(static_cast<std::size_t>(std::max(0, columns - width_of(cut))), ' ');
  return cut;
}

std::vector<std::string> head_lines(const RunView& view, const ScreenLook& look) {
  std::vector<std::string> lines{labelled(look, "state", state_text(view, look)),
                                 labelled(look, "progress", progress_text(view, look))};
  for (const auto& [name, text] :
       {std::pair("speed", speed_text(view)), std::pair("loss", loss_text(view)),
        std::pair("goodput", goodput_text(view.ledger)), std::pair("checkpoint", saves_text(view))})
    if (!text.empty()) lines.push_back(labelled(look, name, text));
  return lines;
}

std::vector<std::string> curve_lines(const RunView& view, const ScreenLook& look, int rows) {
  if (rows <= 1) return {};
  constexpr int kBetween = 2, kThree = 150;  // columns
  const int charts = look.columns >= kThree ? 3 : 2;
  const int columns = std::max(1, (look.columns - kBetween * (charts - 1)) / charts);
  auto lines = chart_of("loss", view.curves["distdl_loss"], view.curves["distdl_validation_loss"], look, columns, rows);
  const auto beside = [&](const std::vector<std::string>& more) {
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += std::string(kBetween, ' ') + more[i];
  };
  beside(chart_of("accuracy", view.curves["distdl_accuracy_ratio"], view.curves["distdl_validation_accuracy_ratio"],
                  look, columns, rows));
  if (charts == 3) beside(chart_of("samples/s", view.curves["distdl_samples_per_second"], {}, look, columns, rows));
  return lines;
}

std::string phase_legend(const ScreenLook& look) {
  std::string legend;
  for (const auto& phase : kPhases)
    legend += fmt::format("{}{} {}", legend.empty() ? "" : "  ", cells(look, phase, 1), phase.name);
  return legend;
}

std::vector<std::string> rank_lines(const RunView& view, const ScreenLook& look) {
  if (view.ranks.empty()) return {"no step has been measured yet"};
  std::vector<std::string> lines;
  double longest = 0;
  for (const auto& rank : view.ranks) longest = std::max(longest, total_of(rank));
  constexpr int kName = 18, kFigures = 24, kNarrowest = 8;
  const int width = std::max(kNarrowest, look.columns - kName - kFigures);
  for (const auto& rank : view.ranks) {
    const auto name = fmt::format("{:>4} {}", rank.rank, printable(rank.host));
    lines.push_back(fmt::format("{}{} {}, {:.0f}% compute", fitted(look, name, kName - 1) + " ",
                                phases_bar(rank, longest, width, look), short_time_text(total_of(rank)),
                                100 * rank.compute / std::max(total_of(rank), 1e-12)));
  }
  return lines;
}

std::vector<std::string> node_lines(const RunView& view, const ScreenLook& look) {
  const auto& report = view.report;
  std::vector<std::string> lines;
  for (const auto& sign : report.summary.at_risk)
    lines.push_back(paint(look, "at risk: " + printable(sign), Colour::yellow));
  for (const auto& bad : report.bad_nodes)
    lines.push_back(paint(
        look,
        fmt::format("left out: {}, {}; {}", printable(bad.node), clock_text(bad.time, view.now), printable(bad.cause)),
        Colour::red));
  for (const auto& row : report.health) lines.push_back(printable(health_text(report, row, view.now)));
  if (lines.empty()) lines.emplace_back("no node has told of its state");
  return lines;
}

std::vector<std::string> save_lines(const RunView& view, const ScreenLook&) {
  std::vector<std::string> lines;
  std::size_t width = 15;  // columns
  for (const auto& save : view.saves) width = std::max(width, places_text(save).size());
  for (auto save = view.saves.rbegin(); save != view.saves.rend(); ++save) {
    const auto size = save->bytes > 0 ? fmt::format("{:>9}", bytes_text(save->bytes)) : std::string(9, ' ');
    lines.push_back(fmt::format("{}  {:<{}} step {:<8} {} in {}, stall {}", clock_text(save->time, view.now),
                                places_text(*save), width, save->step, size, short_time_text(save->seconds),
                                short_time_text(save->stall_seconds)));
  }
  if (lines.empty()) lines.emplace_back("nothing has been saved yet");
  return lines;
}

std::vector<std::string> timeline_lines(const RunView& view, const ScreenLook& look) {
  std::vector<std::string> lines;
  for (auto entry = view.timeline.rbegin(); entry != view.timeline.rend(); ++entry)
    lines.push_back(
        fmt::format("{}  {}", clock_text(entry->time, view.now), paint(look, printable(entry->text), entry->tone)));
  if (lines.empty()) lines.emplace_back("nothing has happened yet");
  return lines;
}

}  // namespace distdl::app
