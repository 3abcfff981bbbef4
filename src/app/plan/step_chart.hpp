// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/parallel/pipeline/schedule.hpp>
#include <distdl/parallel/pipeline/timeline.hpp>

namespace distdl::app {

/// A step of a pipeline, and what happens when in it.
struct PlannedStep {
  parallel::pipeline::Schedule schedule;
  parallel::pipeline::Timeline timeline;
};

/// "12", or with several stages per rank "12b": the microbatch, and which of the rank's stages.
std::string label_of(const PlannedStep& step, const parallel::pipeline::Operation& operation);

/// A line for each rank, at most `width` columns wide if that is at least 60: operations over time, idle time and
/// activations. `colour`: with the escape sequences of a terminal.
std::string step_chart(const PlannedStep& step, int width, bool colour);

}  // namespace distdl::app
