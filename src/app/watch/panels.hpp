// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <distdl/app/watch/screen.hpp>

// The parts of the screen of a run. Each gives lines that may be too long.
namespace distdl::app {

/// The text in this colour, if the terminal has colours.
std::string paint(const ScreenLook& look, std::string_view text, Colour colour);
/// Cut, with a mark, or filled with spaces to exactly so many columns.
std::string fitted(const ScreenLook& look, std::string_view text, int columns);

/// State, progress, figures, goodput, saves: a line for each that is known.
std::vector<std::string> head_lines(const RunView& view, const ScreenLook& look);
/// Loss and accuracy side by side, in so many rows.
std::vector<std::string> curve_lines(const RunView& view, const ScreenLook& look, int rows);
/// Legend of the parts of a rank's bar.
std::string phase_legend(const ScreenLook& look);
/// A bar for each rank.
std::vector<std::string> rank_lines(const RunView& view, const ScreenLook& look);
/// A line for each node that runs ranks, is at risk, or was left out.
std::vector<std::string> node_lines(const RunView& view, const ScreenLook& look);
/// The newest first.
std::vector<std::string> save_lines(const RunView& view, const ScreenLook& look);
std::vector<std::string> timeline_lines(const RunView& view, const ScreenLook& look);

}  // namespace distdl::app
