// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/plan/forecast_record.hpp>
#include <distdl/app/plan/measured_run.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/record_writer.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;

struct ForecastRow {
  std::string run, product;  ///< name_of()
  std::int64_t ranks = 0, global_batch = 0;
  double step_seconds = 0, rank_bytes = 0;
};

std::optional<fs::path> forecasts_file() {
  const auto beside = forecast::calibration_file({});
  return beside ? std::optional(beside->parent_path() / "forecasts.jsonl") : std::nullopt;
}

std::string absolute_text(const fs::path& folder) {
  return fs::weakly_canonical(fs::absolute(folder)).string();
}

std::optional<ForecastRow> row_from(const std::string& line) try {
  const auto row = nlohmann::json::parse(line);
  return ForecastRow{row.at("run").get<std::string>(),     row.at("strategy").get<std::string>(),
                     whole<std::int64_t>(row.at("ranks")), whole<std::int64_t>(row.at("global_batch")),
                     row.at("step_seconds").get<double>(), row.at("rank_bytes").get<double>()};
} catch (const std::exception& error) {
  pass_on_shortage(error);
  return std::nullopt;
}

struct ForecastRows {
  std::map<RanksAndProduct, ForecastRow> newest;        ///< newest forecast of each product
  std::map<std::int64_t, std::string> newest_products;  ///< newest product of each number of ranks
};

ForecastRows newest_rows(const fs::path& run_folder) {
  ForecastRows rows;
  const auto file = forecasts_file();
  if (!file) return rows;
  std::ifstream lines(*file);
  const std::string run = absolute_text(run_folder);
  for (std::string line; std::getline(lines, line);)
    if (const auto row = row_from(line); row && row->run == run) {
      rows.newest[{row->ranks, row->product}] = *row;
      rows.newest_products[row->ranks] = row->product;
    }
  return rows;
}

std::string error_text(double forecast, double measured) {
  return fmt::format("{:+.1f}%", 100 * (forecast / measured - 1));
}

std::string line_of_error(const ForecastRow& forecast, const MeasuredRun& run) {
  const double step = static_cast<double>(forecast.global_batch) / median(run.samples_per_second);
  std::string text =
      fmt::format("{} ranks, {}: step {:.4g} s forecast, {:.4g} s measured ({})", forecast.ranks, forecast.product,
                  forecast.step_seconds, step, error_text(forecast.step_seconds, step));
  if (run.memory_bytes > 0)
    text +=
        fmt::format("; memory of rank 0 {:.1f} MiB forecast, {:.1f} MiB measured ({})", forecast.rank_bytes / (1 << 20),
                    run.memory_bytes / (1 << 20), error_text(forecast.rank_bytes, run.memory_bytes));
  return text + "\n";
}
}  // namespace

/// A rank also reads the others' gradients in the memory that they share.
double first_rank_bytes(const forecast::ProductForecast& product) {
  return product.first_rank.total() + product.readers * product.first_rank.gradients;
}

void record_forecast(const fs::path& run_folder, const forecast::Forecast& forecast, const forecast::Machine& machine) {
  const auto file = forecasts_file();
  if (!file || !forecast.own) return;
  const nlohmann::ordered_json times{{"time", seconds_since_1970()}, {"run", absolute_text(run_folder)}};
  const auto& own = forecast.products[*forecast.own];
  auto row = times;
  row["nodes"] = machine.nodes;
  row["ranks"] = machine.nodes * machine.ranks_per_node;
  row["strategy"] = name_of(own.product);
  row["global_batch"] = forecast.global_batch;
  row["step_seconds"] = own.step.seconds;
  row["rank_bytes"] = first_rank_bytes(own);
  const auto place = resolved_place(*file);
  try {
    make_folders(real_file_system(), place.parent_path());
  } catch (const StorageError& error) {
    return log(Severity::warning, "{}; the forecast is not kept", error.what());
  }
  observe::RecordWriter(place).append(row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string errors_of_forecasts(const fs::path& run_folder) {
  std::string text;
  const auto runs = measured_runs(run_folder);
  const auto has_steps = [&](const auto& run) { return run != runs.end() && !run->second.samples_per_second.empty(); };
  const auto rows = newest_rows(run_folder);
  for (const auto& [key, forecast] : rows.newest) {
    auto run = runs.find(key);
    const bool is_newest = rows.newest_products.at(forecast.ranks) == forecast.product;
    if (!has_steps(run) && is_newest) run = runs.find({forecast.ranks, ""});
    if (has_steps(run)) text += line_of_error(forecast, run->second);
  }
  return text.empty() ? text : fmt::format("\nearlier forecasts for \"{}\":\n{}", run_folder.string(), text);
}

}  // namespace distdl::app
