// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/comparison.hpp>
#include <distdl/app/runs/text_table.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/kept_job.hpp>

namespace distdl::app {
namespace {
using Json = nlohmann::ordered_json;

/// One line of the table of results.
struct Figure {
  const char* name;
  std::function<std::string(const ComparedRun&)> text;
  bool is_rare = false;  ///< left out where no run has it
};

constexpr const char* kNone = "-";

std::string number_or_none(const std::optional<double>& value, const char* format, double factor = 1) {
  return value ? fmt::format(fmt::runtime(format), *value * factor) : kNone;
}

const std::vector<Figure>& figures() {
  static const std::vector<Figure> all{
      {"state", [](const ComparedRun& run) { return run.report.state.word; }},
      {"ranks", [](const ComparedRun& run) { return fmt::format("{}", run.result.ranks); }},
      {"steps", [](const ComparedRun& run) { return fmt::format("{}", run.result.steps); }},
      {"training loss", [](const ComparedRun& run) { return number_or_none(run.report.summary.loss, "{:.4f}"); }},
      {"loss", [](const ComparedRun& run) { return number_or_none(run.result.loss, "{:.4f}"); }},
      {"accuracy", [](const ComparedRun& run) { return number_or_none(run.result.accuracy, "{:.2f}%", 100); }},
      {"samples/s", [](const ComparedRun& run) { return fmt::format("{:.0f}", run.result.samples_per_s); }},
      {"samples/s, mean",
       [](const ComparedRun& run) { return number_or_none(run.result.samples_per_s_mean, "{:.0f}"); }},
      {"samples/s of the last start",
       [](const ComparedRun& run) { return number_or_none(run.result.samples_per_s_of_start, "{:.0f}"); }},
      {"MFU", [](const ComparedRun& run) { return number_or_none(run.result.mfu, "{:.1f}%", 100); }},
      {"HFU", [](const ComparedRun& run) { return number_or_none(run.result.hfu, "{:.1f}%", 100); }, true},
      {"wall time", [](const ComparedRun& run) { return duration_text(run.wall_seconds); }},
      {"restarts", [](const ComparedRun& run) { return fmt::format("{}", run.report.summary.restarts.size()); }},
      {"steps repeated", [](const ComparedRun& run) { return fmt::format("{}", run.result.steps_repeated); }}};
  return all;
}

std::vector<std::string> heads(const char* first, const std::vector<ComparedRun>& runs) {
  std::vector<std::string> row{first};
  for (const ComparedRun& run : runs) row.push_back(run.name);
  return row;
}

/// The result that the ranks have written in the end; of a run that has not ended, or has none, the result according to
/// its rows.
observe::Result result_of(const RunReport& report) {
  if (!report.state.is_live) try {
      return observe::read_result(report.folder);
    } catch (const StorageError& error) {
      if (error.exit_code() != ExitCode::incomplete) log(Severity::warning, "{}", error.what());
    }
  return observe::collect_result(report.folder);
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const ComparedRun& run) {
  const auto& result = run.result;
  return {{"run", run.report.id},
          {"run_dir", run.report.folder.string()},
          {"state", run.report.state.word},
          {"ranks", result.ranks},
          {"steps", result.steps},
          {"training_loss", number_or_null(run.report.summary.loss)},
          {"loss", number_or_null(result.loss)},
          {"accuracy", number_or_null(result.accuracy)},
          {"samples_per_s", result.samples_per_s},
          {"samples_per_s_of_start", number_or_null(result.samples_per_s_of_start)},
          {"samples_per_s_mean", number_or_null(result.samples_per_s_mean)},
          {"mfu", number_or_null(result.mfu)},
          {"hfu", number_or_null(result.hfu)},
          {"wall_seconds", run.wall_seconds},
          {"restarts", run.report.summary.restarts.size()},
          {"steps_repeated", result.steps_repeated},
          {"has_job", run.job.has_value()}};
}
}  // namespace

ComparedRun compared_run(const std::string& name, RunReport report) {
  const auto now = report.state.is_live ? std::optional(seconds_since_1970()) : std::nullopt;
  const double wall_seconds = observe::read_ledger(report.folder, now).wall();
  return compared_run(name, std::move(report), wall_seconds);
}

ComparedRun compared_run(const std::string& name, RunReport report, double wall_seconds) {
  ComparedRun run{name, std::move(report)};
  run.result = result_of(run.report);
  run.wall_seconds = wall_seconds;
  const auto job = observe::kept_job(run.report.folder);
  if (job && !job->empty()) run.job = observe::keys_of_job(*job);
  return run;
}

std::vector<KeyDifference> differences(const std::vector<ComparedRun>& runs) {
  static constexpr std::array kPlaces{"run.dir", "log.openmetrics", "log.openmetrics_listen"};
  std::set<std::string> keys;
  for (const ComparedRun& run : runs)
    for (const auto& [key, value] : run.job.value_or(std::map<std::string, std::string>())) keys.insert(key);
  std::vector<KeyDifference> found;
  for (const std::string& key : keys) {
    if (std::find(kPlaces.begin(), kPlaces.end(), key) != kPlaces.end()) continue;
    KeyDifference difference{key, {}};
    std::set<std::optional<std::string>> values;
    for (const ComparedRun& run : runs) {
      std::optional<std::string> value;
      if (run.job && run.job->contains(key)) value = run.job->at(key);
      difference.values.push_back(value);
      if (run.job) values.insert(value);
    }
    if (values.size() > 1) found.push_back(std::move(difference));
  }
  return found;
}

std::vector<ResultRow> result_rows(const std::vector<ComparedRun>& runs) {
  std::vector<ResultRow> rows;
  for (const Figure& figure : figures()) {
    ResultRow row{figure.name, {}};
    for (const ComparedRun& run : runs) row.texts.push_back(figure.text(run));
    const bool is_known = std::ranges::any_of(row.texts, [](const std::string& text) { return text != kNone; });
    if (is_known || !figure.is_rare) rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_text(const std::vector<ComparedRun>& runs) {
  std::string text;
  TextTable jobs;
  jobs.add(heads("key", runs));
  const auto keys = differences(runs);
  for (const KeyDifference& difference : keys) {
    std::vector<std::string> row{difference.key};
    for (const auto& value : difference.values) row.push_back(value.value_or("-"));
    jobs.add(std::move(row));
  }
  const auto kept = std::ranges::count_if(runs, [](const ComparedRun& run) { return run.job.has_value(); });
  if (!keys.empty())
    text += jobs.text();
  else if (kept > 1)
    text += "no key of the jobs differs\n";
  for (const ComparedRun& run : runs)
    if (!run.job)
      text += fmt::format(
          "{}: its job was not kept: job.toml in its folder is missing, as of an older distdl, or empty, as after a "
          "crash\n",
          printable(run.name));
  TextTable results;
  results.add(heads("result", runs));
  for (const ResultRow& result : result_rows(runs)) {
    std::vector<std::string> row{result.name};
    row.insert(row.end(), result.texts.begin(), result.texts.end());
    results.add(std::move(row));
  }
  return text + "\n" + results.text();
}

Json to_json(const std::vector<ComparedRun>& runs) {
  Json all = Json::array(), keys = Json::array();
  for (const ComparedRun& run : runs) all.push_back(to_json(run));
  for (const KeyDifference& difference : differences(runs)) {
    Json values = Json::array();
    for (const auto& value : difference.values) values.push_back(value ? Json(*value) : Json(nullptr));
    keys.push_back({{"key", difference.key}, {"values", std::move(values)}});
  }
  return {{"runs", std::move(all)}, {"job", std::move(keys)}};
}

}  // namespace distdl::app
