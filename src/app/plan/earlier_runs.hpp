// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/config/job.hpp>
#include <distdl/forecast/forecast.hpp>
#include <distdl/forecast/learned.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::app {

/// Corrections of forecasts, learned from the records of earlier runs.
struct Lessons {
  forecast::Learned step, memory;
  std::map<parallel::Strategy, forecast::Learned> traffic_by_strategy = {};  ///< traffic of rank 0 in collectives
  forecast::Learned traffic;  ///< traffic with the job's strategy, see choose_traffic()
  /// Bytes in a step: each gradient once, or as choose_traffic() has corrected it.
  double traffic_bytes = 0;
  std::vector<std::string> left_out = {};  ///< runs that were left out, and why
};

/// The runs that --from names: find_runs() of each word, or all that "distdl ls" knows for "all".
std::vector<std::filesystem::path> runs_of(const std::vector<std::string>& words);

/// Compares what runs have measured with the forecasts that such nodes as `machine` give for them. `job` is the next
/// one. A run that cannot be compared is left out.
Lessons learn_from(const std::vector<std::filesystem::path>& runs, const config::Job& job,
                   const forecast::Workload& work, const forecast::Machine& machine);

/// Sets the traffic of the strategy with which the next job trains, once it is known.
void choose_traffic(Lessons& lessons, parallel::Strategy strategy);

std::string lessons_text(const Lessons& lessons);
nlohmann::ordered_json lessons_json(const Lessons& lessons);

}  // namespace distdl::app
