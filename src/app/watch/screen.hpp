// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <distdl/app/watch/run_view.hpp>
#include <distdl/base/terminal.hpp>

// The screens of "distdl watch" as lines of text: functions of what is known, without a terminal.
namespace distdl::app {

/// Size and abilities of a terminal.
struct ScreenLook {
  int columns = 80, rows = 24;
  bool with_colour = true, with_utf8 = true;
};

/// Choices of a user of the screen.
struct ScreenState {
  enum class Panel { all, curves, ranks, nodes, saves, timeline };
  std::size_t run = 0;       ///< index of the chosen run
  bool is_open = false;      ///< true: the screen of this run, not the list of runs
  Panel panel = Panel::all;  ///< alone on the screen, but for `all`
  std::size_t scroll = 0;    ///< lines of that panel above the screen
  bool shows_keys = false;   ///< true: the keys are shown instead of the run
};

/// At most `rows` lines of at most `columns` columns.
std::vector<std::string> draw_screen(const std::vector<RunView>& runs, const ScreenState& state,
                                     const ScreenLook& look);

/// Applies a key to the state of the screen. Returns false if it ends the command.
bool press(KeyPress press, ScreenState& state, const std::vector<RunView>& runs, const ScreenLook& look);

}  // namespace distdl::app
