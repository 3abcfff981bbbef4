// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/config/job.hpp>
#include <distdl/forecast/forecast.hpp>

namespace distdl::app {

/// The arguments of "distdl plan JOB --nodes N".
struct ForecastArguments {
  std::filesystem::path job;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> nodes, least_nodes;
  std::int64_t ranks_per_node = 1, group = 32, seed = 1;
  std::string fabric = "flat", rate, node_memory;
  double oversubscription = 1, latency_us = 0, mtbf_hours = 43800;
  std::filesystem::path calibration;
  std::vector<std::string> from;
  bool is_tuned = false, shows_all = false;

  /// All but the job itself.
  std::vector<Option> add_to(Command command);
};

/// The figures of this machine's kind, or else the newest of another kind, and for parallel.strategy = "auto" what
/// earlier starts of the run have measured. Throws ConfigError for a calibration that cannot be used.
void add_figures(forecast::Machine& machine, const config::Job& job);

/// Prints a forecast of a job file's run, and how wrong earlier ones for its run folder were. Throws as
/// forecast::forecast() does, and UsageError.
void print_forecast(const ForecastArguments& arguments, bool json);

/// Parses a size with a decimal prefix: "1G" is 1e9, "100M" is 1e8. Throws UsageError that names the option.
double decimal_size(const std::string& option, const std::string& text);

/// As the table that people read, with the best products or all, and as JSON. `learned`: lessons_json(), or null.
std::string forecast_table(const forecast::Forecast& forecast, const forecast::Machine& machine, bool shows_all);
std::string forecast_json(const forecast::Forecast& forecast, const forecast::Machine& machine,
                          const nlohmann::ordered_json& learned);

}  // namespace distdl::app
