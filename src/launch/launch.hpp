// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// How one launch ended.
struct LaunchResult {
  int code = 0;
  bool told_to_stop = false;  ///< true if a stop signal came while it ran, or ended it
  bool is_saved = false;      ///< the ranks themselves say so
  std::string cause = {};     ///< cause of the end, if more is known than its code; otherwise empty
  bool lost_node = false;     ///< true if it broke off while its agents continued without a lost node, or for one
  std::vector<std::string> silent = {};  ///< nodes whose host answered nothing a moment ago
};

/// One launch from start to end: starts its processes, passes signals on to them, and waits for their end. A launch
/// that cannot begin, because the system refuses a process, has failed like any other.
LaunchResult launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals);

}  // namespace distdl::launch
