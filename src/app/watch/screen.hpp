// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <distdl/app/watch/run_view.hpp>
#include <distdl/base/terminal.hpp>

// The screens of "distdl watch" as lines of text: functions of what is known, without a terminal.
namespace distdl::app {

/// What a terminal can show.
struct ScreenLook {
  int columns = 80, rows = 24;
  bool with_colour = true, with_utf8 = true;
};

/// What a user of the screen has chosen.
struct ScreenState {
  enum class Panel { all, curves, ranks, nodes, saves, timeline };
  std::size_t run = 0;       ///< that is chosen
  bool is_open = false;      ///< its screen, not the list of runs
  Panel panel = Panel::all;  ///< alone on the screen, but for `all`
  std::size_t scroll = 0;    ///< lines of that panel above the screen
  bool shows_keys = false;   ///< instead of the run
};

/// At most `rows` lines of at most `columns` columns.
std::vector<std::string> draw_screen(const std::vector<RunView>& runs, const ScreenState& state,
                                     const ScreenLook& look);

/// What a key does on that screen. Returns false if it ends the command.
bool press(KeyPress press, ScreenState& state, const std::vector<RunView>& runs, const ScreenLook& look);

}  // namespace distdl::app
