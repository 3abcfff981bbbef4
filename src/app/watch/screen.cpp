// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <distdl/app/watch/panels.hpp>
#include <distdl/app/watch/screen.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
using Panel = ScreenState::Panel;
using ScreenLines = std::vector<std::string>;

struct PanelEntry {
  char key;
  Panel panel;
  const char *name, *help;
};
constexpr std::array<PanelEntry, 5> kPanels{
    {{'c', Panel::curves, "curves", "loss, accuracy and samples/s"},
     {'r', Panel::ranks, "ranks", "where the time of a step goes in each rank"},
     {'n', Panel::nodes, "nodes", "the nodes and their health"},
     {'s', Panel::saves, "saves", "checkpoints and snapshots, and where they are kept"},
     {'t', Panel::timeline, "timeline", "faults, recoveries, starts and stops"}}};

void append_lines(ScreenLines& lines, ScreenLines more) {
  lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string name_of_run(const RunView& view) {
  const auto folder = printable(view.report.folder.string());
  return view.report.id.empty() ? folder : view.report.id + "  " + folder;
}

/// With the time at the right.
std::string title_line(const std::string& text, double now, const ScreenLook& look) {
  constexpr int kTime = 20;  // "2026-03-01 12:00:00", and a space
  const auto left = fitted(look, text, std::max(0, look.columns - kTime));
  return paint(look, left + " " + time_text(now), Colour::cyan);
}

std::string heading(const PanelEntry& entry, const ScreenLook& look) {
  const std::string line = look.with_utf8 ? "─" : "-";
  std::string text = paint(look, line + line + " " + entry.name + " ", Colour::cyan);
  if (entry.panel == Panel::ranks) text += " " + phase_legend(look) + "  ";
  std::string rest;
  for (int i = width_of(text); i < look.columns; ++i) rest += line;
  return text + paint(look, rest, Colour::cyan);
}

/// The first lines; the last one of them tells how many are not shown.
ScreenLines first_of(ScreenLines lines, int rows) {
  const auto most = static_cast<std::size_t>(std::max(0, rows));
  if (lines.size() <= most || most == 0) {
    lines.resize(std::min(lines.size(), most));
    return lines;
  }
  const auto hidden = lines.size() - most + 1;
  lines.resize(most);
  lines.back() = fmt::format("... {} more", hidden);
  return lines;
}

ScreenLines panel_lines(const RunView& view, Panel panel, const ScreenLook& look, int rows) {
  switch (panel) {
    case Panel::curves:
      return curve_lines(view, look, rows);
    case Panel::ranks:
      return rank_lines(view, look);
    case Panel::nodes:
      return node_lines(view, look);
    case Panel::saves:
      return save_lines(view, look);
    case Panel::timeline:
      return timeline_lines(view, look);
    case Panel::all:
      break;
  }
  return {};
}

/// How many rows each panel gets: the curves a third, the others what they need, as long as there is room, one after
/// the other; the curves the rest.
struct PanelRows {
  int curves = 0;
  std::array<int, 3> lists{};  ///< with their headings; 0: not shown
};

PanelRows divide_rows(int rows, const std::array<int, 3>& wanted) {
  constexpr int kLeastCurves = 4, kLeastList = 2;
  PanelRows divided;
  divided.curves = rows >= kLeastCurves ? std::max(kLeastCurves, rows / 3) : 0;
  int left = rows - divided.curves;
  for (std::size_t i = 0; i < wanted.size() && left >= kLeastList; ++i) {
    divided.lists[i] = kLeastList;
    left -= kLeastList;
  }
  for (bool grows = true; left > 0 && grows;) {
    grows = false;
    for (std::size_t i = 0; i < wanted.size() && left > 0; ++i) {
      if (divided.lists[i] == 0 || divided.lists[i] >= wanted[i]) continue;
      ++divided.lists[i];
      --left;
      grows = true;
    }
  }
  if (divided.curves > 0) divided.curves += left;
  return divided;
}

ScreenLines all_panels(const RunView& view, const ScreenLook& look, int rows) {
  const std::array<Panel, 3> lists{Panel::timeline, Panel::ranks, Panel::nodes};
  std::array<ScreenLines, 3> texts;
  std::array<int, 3> wanted{};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    texts[i] = panel_lines(view, lists[i], look, rows);
    wanted[i] = static_cast<int>(texts[i].size()) + 1;
  }
  const PanelRows divided = divide_rows(rows, wanted);
  ScreenLines lines = curve_lines(view, look, divided.curves);
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{0}}) {  // the timeline is the last one
    if (divided.lists[i] == 0) continue;
    const auto* const entry =
        std::find_if(kPanels.begin(), kPanels.end(), [&](const auto& e) { return e.panel == lists[i]; });
    lines.push_back(heading(*entry, look));
    append_lines(lines, first_of(std::move(texts[i]), divided.lists[i] - 1));
  }
  return lines;
}

ScreenLines one_panel(const RunView& view, const ScreenState& state, const ScreenLook& look, int rows) {
  const auto* const entry =
      std::find_if(kPanels.begin(), kPanels.end(), [&](const auto& e) { return e.panel == state.panel; });
  ScreenLines lines = panel_lines(view, state.panel, look, rows - 1);
  const auto above = std::min(state.scroll, lines.empty() ? 0 : lines.size() - 1);
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(above));
  lines.insert(lines.begin(), heading(*entry, look));
  return first_of(std::move(lines), rows);
}

ScreenLines key_lines() {
  ScreenLines lines{"q        end", "b, Esc   back: to all of the run, then to the list of runs", "Enter    open a run",
                    "up, down choose a run, or scroll a panel; also k and j, Page up, Page down"};
  for (const auto& entry : kPanels) lines.push_back(fmt::format("{}        {}: {}", entry.key, entry.name, entry.help));
  lines.emplace_back("Ctrl-L   draw the screen again");
  lines.emplace_back("?        these keys");
  return lines;
}

std::string key_line(const ScreenState& state, std::size_t runs, const ScreenLook& look) {
  std::string text = "q end";
  if (state.shows_keys || state.panel != Panel::all || (state.is_open && runs > 1)) text += "  b back";
  if (!state.is_open) text += "  up/down choose  Enter open";
  if (state.is_open)
    for (const auto& entry : kPanels) text += fmt::format("  {} {}", entry.key, entry.name);
  return paint(look, text + "  ? keys", Colour::cyan);
}

ScreenLines run_lines(const RunView& view, const ScreenState& state, const ScreenLook& look, int rows) {
  ScreenLines lines{title_line(name_of_run(view), view.now, look)};
  if (!view.trouble.empty()) {
    lines.push_back(paint(look, printable(view.trouble), Colour::red));
    return lines;
  }
  if (!view.is_read) {
    lines.emplace_back("opening ...");
    return lines;
  }
  append_lines(lines, head_lines(view, look));
  const int left = rows - static_cast<int>(lines.size());
  append_lines(lines, state.panel == Panel::all ? all_panels(view, look, left) : one_panel(view, state, look, left));
  return lines;
}

/// "0.1234", "-".
std::string last_value(const Curve& curve) {
  return curve.points().empty() ? "-" : fmt::format("{:.4g}", curve.points().back().value);
}

/// "12 min"; where there is room also when it is done, or why nobody can tell.
std::string left_text(const RunView& view, const ScreenLook& look) {
  constexpr int kWide = 120;  // columns
  if (look.columns < kWide) return view.estimate.seconds ? duration_text(*view.estimate.seconds) : "-";
  const auto text = estimate_text(view);
  return text.empty() ? printable(view.report.state.explanation) : text;
}

std::string list_line(const RunView& view, bool is_chosen, const ScreenLook& look) {
  const auto& summary = view.report.summary;
  const char* const mark = is_chosen ? "> " : "  ";
  if (!view.is_read) return fmt::format("{}{}  {}", mark, name_of_run(view), view.trouble.empty() ? "opening ..." : "");
  double fraction = 0;
  if (summary.step && summary.total && summary.total->value > 0)
    fraction = static_cast<double>(summary.step->value) / static_cast<double>(summary.total->value);
  constexpr int kBar = 10, kName = 20, kState = 11;
  const auto name = view.report.folder.filename().empty() ? view.report.folder.parent_path().filename()
                                                          : view.report.folder.filename();
  const auto tone = view.report.state.is_live || view.report.state.word == "finished" ? Colour::green : Colour::red;
  return mark + fitted(look, printable(name.string()), kName) +
         paint(look, fitted(look, view.report.state.word, kState), tone) +
         paint(look, progress_bar(fraction, kBar, look.with_utf8), Colour::cyan) +
         fmt::format("{:>4.0f}%  {:>8}  {:>9}  {}", 100 * fraction, last_value(view.curves["distdl_loss"]),
                     view.samples_per_s > 0 ? fmt::format("{:.0f}/s", view.samples_per_s) : "-", left_text(view, look));
}

ScreenLines list_lines(const std::vector<RunView>& runs, const ScreenState& state, const ScreenLook& look, int rows) {
  const double now = runs.empty() ? 0 : runs.front().now;
  const auto head = "  " + fitted(look, "RUN", 20) + "STATE      PROGRESS             LOSS  SAMPLES    LEFT";
  ScreenLines lines{title_line(fmt::format("{} runs", runs.size()), now, look), paint(look, head, Colour::cyan)};
  const auto room = static_cast<std::size_t>(std::max(1, rows - 2));
  const auto first = state.run >= room ? state.run - room + 1 : 0;  // the chosen one is on the screen
  for (std::size_t i = first; i < std::min(runs.size(), first + room); ++i)
    lines.push_back(list_line(runs[i], i == state.run, look));
  return lines;
}

/// Without UTF-8 other characters of names become "?".
std::string without_utf8(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      plain += c;
    else if ((byte & 0xc0) != 0x80)
      plain += '?';
  }
  return plain;
}

void go_back(ScreenState& state, std::size_t runs) {
  if (state.shows_keys)
    state.shows_keys = false;
  else if (state.panel != Panel::all)
    state.panel = Panel::all;
  else
    state.is_open = state.is_open && runs == 1;
  state.scroll = 0;
}

/// To another run of the list, or within a panel that is alone on the screen.
void choose_line(KeyPress press, char c, ScreenState& state, const std::vector<RunView>& runs, const ScreenLook& look) {
  constexpr std::size_t kPage = 10;
  const bool is_page = press.key == Key::page_up || press.key == Key::page_down;
  const bool goes_up = press.key == Key::up || press.key == Key::page_up || c == 'k';
  const bool goes_down = press.key == Key::down || press.key == Key::page_down || c == 'j';
  if (runs.empty() || state.shows_keys || (!goes_up && !goes_down)) return;
  std::size_t lines = runs.size();
  if (state.is_open) lines = state.panel == Panel::all ? 1 : panel_lines(runs[state.run], state.panel, look, 1).size();
  auto& place = state.is_open ? state.scroll : state.run;
  const auto by = is_page ? kPage : std::size_t{1};
  place = goes_up ? place - std::min(place, by) : std::min(place + by, lines > 0 ? lines - 1 : 0);
}

void choose_panel(char c, ScreenState& state) {
  for (const auto& entry : kPanels) {
    if (entry.key != c) continue;
    state.panel = state.panel == entry.panel ? Panel::all : entry.panel;
    state.scroll = 0;
    state.shows_keys = false;
  }
}
}  // namespace

std::vector<std::string> draw_screen(const std::vector<RunView>& runs, const ScreenState& state,
                                     const ScreenLook& look) {
  const int rows = std::max(1, look.rows), columns = std::max(1, look.columns);
  const bool is_open = state.is_open && state.run < runs.size();
  ScreenLines lines = state.shows_keys ? key_lines()
                      : is_open        ? run_lines(runs[state.run], state, look, rows - 1)
                                       : list_lines(runs, state, look, rows - 1);
  lines.resize(static_cast<std::size_t>(rows - 1));
  lines.push_back(key_line(state, runs.size(), look));
  for (auto& line : lines) {
    if (!look.with_utf8) line = without_utf8(line);
    line = cut_with_mark(line, columns, look.with_utf8);
  }
  return lines;
}

bool press(KeyPress press, ScreenState& state, const std::vector<RunView>& runs, const ScreenLook& look) {
  const char c = press.key == Key::character ? press.character : '\0';
  if (c == 'q') return false;
  if (c == '?') state.shows_keys = !state.shows_keys;
  if (press.key == Key::enter && !state.is_open) state.is_open = !runs.empty();
  if (press.key == Key::escape || press.key == Key::left || c == 'b') go_back(state, runs.size());
  choose_line(press, c, state, runs, look);
  if (state.is_open) choose_panel(c, state);
  return true;
}

}  // namespace distdl::app
