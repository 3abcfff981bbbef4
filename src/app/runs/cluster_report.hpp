// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/observe/run/run_summary.hpp>

// How "distdl status" shows the jobs of a parameter server.
namespace distdl::app {

/// "/job:ps/task:0  rank 2  n1" of each task, those of the servers first; of many the first ones. Empty without a
/// parameter server.
std::vector<std::string> task_lines(const observe::ClusterSummary& cluster);
/// All tasks in JSON; null without a parameter server.
nlohmann::ordered_json tasks_json(const observe::ClusterSummary& cluster);

}  // namespace distdl::app
