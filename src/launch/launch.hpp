// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/agent/processes.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// How one launch ended.
struct LaunchResult {
  int code = 0;
  bool told_to_stop = false;  ///< a signal came in while it ran
  bool is_saved = false;      ///< the ranks themselves say so
  std::string cause = {};     ///< where it is known better than by the code; empty: the code says all
  bool lost_node = false;     ///< it broke off while its agents went on without a node that they had lost
};

/// One launch from start to end: starts its processes, passes signals on to them, and waits for their end. A launch
/// that cannot begin, because the system refuses a process, has failed like any other.
LaunchResult launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals);

}  // namespace distdl::launch
