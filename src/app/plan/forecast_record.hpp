// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/forecast/forecast.hpp>

namespace distdl::app {

/// Memory of rank 0 in bytes, as the records of a run count it.
double first_rank_bytes(const forecast::ProductForecast& product);

/// Appends the forecast of the job's own product to "forecasts.jsonl" in the folder of calibrations. What cannot be
/// written is lost.
void record_forecast(const std::filesystem::path& run_folder, const forecast::Forecast& forecast,
                     const forecast::Machine& machine);

/// How far the newest forecasts of this run folder, one for each product, were from what its records tell of starts
/// with this product: the median step and the memory of rank 0. Starts of a version that did not record the product
/// count for the newest forecast of as many ranks. Empty if there are none, or the run has no records.
std::string errors_of_forecasts(const std::filesystem::path& run_folder);

}  // namespace distdl::app
