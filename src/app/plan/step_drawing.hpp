// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/app/plan/step_chart.hpp>

namespace distdl::app {

/// An SVG document with a diagram for each step, below each other, with the same scale of time.
std::string draw_steps(const std::vector<PlannedStep>& steps);

}  // namespace distdl::app
