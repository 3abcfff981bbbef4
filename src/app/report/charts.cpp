// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/report/charts.hpp>

namespace distdl::app {
namespace {
/// A line of each run in a chart.
struct ChartLine {
  const char *chart, *unit, *name;
  const char* curve;  ///< its name in RunCurves: that of the metric
};

/// Charts whose points are exact: a mean of them would show what never was.
constexpr const char* kExactCharts[] = {"Learning rate", "Memory of rank 0", "Checkpoint size"};

/// Those of one chart stand together.
constexpr ChartLine kChartLines[] = {
    {"Loss", "nats per label", "training", "distdl_loss"},
    {"Loss", "nats per label", "validation", "distdl_validation_loss"},
    {"Accuracy", "share of right ones, 0 to 1", "training", "distdl_accuracy_ratio"},
    {"Accuracy", "share of right ones, 0 to 1", "validation", "distdl_validation_accuracy_ratio"},
    {"Speed", "samples/s", "", "distdl_samples_per_second"},
    {"Utilization of the hardware", "share of the peak, 0 to 1", "MFU", "distdl_mfu_ratio"},
    {"Utilization of the hardware", "share of the peak, 0 to 1", "HFU", "distdl_hfu_ratio"},
    {"Learning rate", "no unit", "", "distdl_learning_rate"},
    {"Gradient norm", "no unit, before clipping", "", "distdl_gradient_norm"},
    {"Waits of rank 0 in a step", "seconds", "samples", "distdl_waited_seconds"},
    {"Waits of rank 0 in a step", "seconds", "sums of gradients", "distdl_sum_waited_seconds"},
    {"Waits of rank 0 in a step", "seconds", "other stages", "distdl_pipeline_waited_seconds"},
    {"Memory of rank 0", "bytes", "", "distdl_memory_bytes"},
    {"Checkpoint size", "bytes", "", "distdl_checkpoint_bytes"},
    {"Time until a save is complete", "seconds", "checkpoint", "distdl_checkpoint_seconds"},
    {"Time until a save is complete", "seconds", "snapshot", "snapshot_seconds"},
    {"Stall of training by a save", "seconds", "checkpoint", "distdl_checkpoint_stall_seconds"},
    {"Stall of training by a save", "seconds", "snapshot", "snapshot_stall_seconds"},
};

bool tells_something(const Curve& curve) {
  return std::ranges::any_of(curve.points(), [](const CurvePoint& point) { return point.value != 0; });
}

/// Six digits, which take fewer bytes.
double six_digits(double value) {
  const auto text = fmt::format("{:.6g}", value);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// At most `most` points, always with the last one.
nlohmann::ordered_json line_data(const Curve& curve, std::size_t most) {
  const auto& points = curve.points();
  const std::size_t stride = (points.size() + most - 1) / most;
  auto steps = nlohmann::ordered_json::array(), values = nlohmann::ordered_json::array();
  for (std::size_t i = (points.size() - 1) % stride; i < points.size(); i += stride) {
    steps.push_back(points[i].step);
    values.push_back(six_digits(points[i].value));
  }
  return {{"steps", std::move(steps)}, {"values", std::move(values)}};
}
}  // namespace

nlohmann::ordered_json charts_of(const std::vector<const RunView*>& views, std::size_t most_points) {
  constexpr std::size_t kFewest = 64;
  const std::size_t most =
      std::max(kFewest, most_points / std::max<std::size_t>(1, views.size() * std::size(kChartLines)));
  auto charts = nlohmann::ordered_json::array();
  for (const auto& line : kChartLines)
    for (std::size_t i = 0; i < views.size(); ++i) {
      const Curve& curve = views[i]->curves[line.curve];
      if (!tells_something(curve)) continue;
      if (charts.empty() || charts.back()["title"] != line.chart)
        charts.push_back(
            {{"title", line.chart},
             {"unit", line.unit},
             {"is_noisy", std::ranges::find(kExactCharts, std::string_view(line.chart)) == std::end(kExactCharts)},
             {"lines", nlohmann::ordered_json::array()}});
      auto& lines = charts.back()["lines"];
      const auto pattern =
          std::count_if(lines.begin(), lines.end(), [i](const auto& other) { return other["run"] == i; });
      nlohmann::ordered_json data{{"run", i}, {"name", line.name}, {"pattern", pattern}};
      data.update(line_data(curve, most));
      lines.push_back(std::move(data));
    }
  return charts;
}

}  // namespace distdl::app
