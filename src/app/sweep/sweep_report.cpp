// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/text_table.hpp>
#include <distdl/app/sweep/sweep_report.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {
namespace {
const char* word_of(SweptRun::State state) {
  switch (state) {
    case SweptRun::State::none:
      return "waiting";
    case SweptRun::State::unfinished:
      return "unfinished";
    case SweptRun::State::paused:
      return "paused";
    case SweptRun::State::finished:
      return "finished";
    case SweptRun::State::failed:
      return "failed";
  }
  return "?";
}

std::string value_text(train::Metric metric, std::optional<double> value) {
  if (!value) return "-";
  return metric == train::Metric::loss ? fmt::format("{:.4f}", *value) : fmt::format("{:.2f}%", *value * 100);
}

/// Text after the "=".
std::string value_of_key(const std::string& set) {
  return set.substr(set.find('=') + 1);
}
}  // namespace

std::string sweep_line(const Sweep& sweep, const std::vector<SweptRun>& runs) {
  const auto in_state = [&runs](SweptRun::State state) { return std::ranges::count(runs, state, &SweptRun::state); };
  const auto failed = in_state(SweptRun::State::failed), paused = in_state(SweptRun::State::paused);
  std::string text = fmt::format("sweep in {}: {} of {} runs finished", printable(sweep.folder),
                                 in_state(SweptRun::State::finished), runs.size());
  if (paused > 0) text += fmt::format(", {} paused", paused);
  if (failed > 0) text += fmt::format(", {} failed", failed);
  const auto best = runs.empty() ? 0 : ranking(sweep, runs).front();
  const auto value = runs.empty() ? std::nullopt : value_of(sweep, runs[best]);
  if (!value || runs[best].state == SweptRun::State::failed) return text + "\n";
  return text + fmt::format("; best: {}, {} {}, {}\n", name_of_run(best), sweep.metric, value_text(sweep.metric, value),
                            printable(fmt::format("{}", fmt::join(points_of(sweep)[best], ", "))));
}

std::string to_text(const Sweep& sweep, const std::vector<SweptRun>& runs) {
  TextTable table;
  std::vector<std::string> head{"RUN", "STATE", "STEPS", sweep.metric == train::Metric::loss ? "LOSS" : "ACCURACY"};
  for (const SweptKey& key : sweep.keys) head.push_back(key.key);
  table.add(std::move(head));
  const auto points = points_of(sweep);
  for (const std::size_t run : ranking(sweep, runs)) {
    const SweptRun& told = runs[run];
    std::vector<std::string> row{name_of_run(run), word_of(told.state), std::to_string(told.steps),
                                 value_text(sweep.metric, value_of(sweep, told))};
    for (const std::string& set : points[run]) row.push_back(value_of_key(set));
    table.add(std::move(row));
  }
  return table.text() + sweep_line(sweep, runs);
}

nlohmann::ordered_json to_json(const Sweep& sweep, const std::vector<SweptRun>& runs) {
  auto rows = nlohmann::ordered_json::array();
  const auto points = points_of(sweep);
  for (const std::size_t run : ranking(sweep, runs)) {
    nlohmann::ordered_json keys = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < sweep.keys.size(); ++i) keys[sweep.keys[i].key] = value_of_key(points[run][i]);
    const auto value = value_of(sweep, runs[run]);
    nlohmann::ordered_json row{{"run", name_of_run(run)},
                               {"run_dir", (std::filesystem::path(sweep.folder) / name_of_run(run)).string()},
                               {"state", word_of(runs[run].state)},
                               {"steps", runs[run].steps},
                               {"value", value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr)},
                               {"keys", std::move(keys)}};
    if (!runs[run].failure.empty()) row["cause"] = runs[run].failure;
    rows.push_back(std::move(row));
  }
  return {{"folder", sweep.folder}, {"metric", sweep.metric.name()}, {"runs", std::move(rows)}};
}

}  // namespace distdl::app
