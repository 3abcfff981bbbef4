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

/// What the records of earlier runs have taught about forecasts.
struct Lessons {
  forecast::Learned step, memory;
  std::map<parallel::Strategy, forecast::Learned> traffic_by_strategy = {};  ///< of rank 0 in collectives
  forecast::Learned traffic;               ///< of the job's strategy: choose_traffic()
  double traffic_bytes = 0;                ///< in a step: each gradient once, or as choose_traffic() has corrected it
  std::vector<std::string> left_out = {};  ///< runs, and why
};

/// The runs that --from names: find_runs() of each word, or all that "distdl ls" knows for "all".
std::vector<std::filesystem::path> runs_of(const std::vector<std::string>& words);

/// Compares what runs have measured with the forecasts that such nodes as `machine` give for them. `job` is the next
/// one. A run that cannot be compared is left out.
Lessons learn_from(const std::vector<std::filesystem::path>& runs, const config::Job& job,
                   const forecast::Workload& work, const forecast::Machine& machine);

/// Once it is known as what the next job trains.
void choose_traffic(Lessons& lessons, parallel::Strategy strategy);

std::string lessons_text(const Lessons& lessons);
nlohmann::ordered_json lessons_json(const Lessons& lessons);

}  // namespace distdl::app
