// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/model/confusion.hpp>
#include <distdl/app/runs/text_table.hpp>

namespace distdl::app {
namespace {
std::string percentage(std::optional<double> value) {
  return value ? fmt::format("{:.1f}%", 100 * *value) : "-";
}

nlohmann::ordered_json json_or_null(std::optional<double> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
}  // namespace

struct ConfusionMatrix::ClassFigures {
  std::size_t which = 0;
  std::int64_t samples = 0;
  std::optional<double> recall = {}, precision = {};
  std::size_t mistaken_for = 0;  ///< the other class that it is taken for most often
  std::int64_t mistakes = 0;     ///< how often
};

ConfusionMatrix::ClassFigures ConfusionMatrix::figures(std::size_t which) const {
  ClassFigures figures{which};
  std::int64_t predicted = 0;
  for (std::size_t other = 0; other < classes_; ++other) {
    figures.samples += count(which, other);
    predicted += count(other, which);
    if (other == which || count(which, other) <= figures.mistakes) continue;
    figures.mistaken_for = other;
    figures.mistakes = count(which, other);
  }
  const auto right = static_cast<double>(count(which, which));
  if (figures.samples > 0) figures.recall = right / static_cast<double>(figures.samples);
  if (predicted > 0) figures.precision = right / static_cast<double>(predicted);
  return figures;
}

std::string ConfusionMatrix::text() const {
  constexpr std::size_t kMostClasses = 20;  // of a matrix that fits on a screen
  std::vector<ClassFigures> all;
  for (std::size_t which = 0; which < classes_; ++which) all.push_back(figures(which));
  std::ranges::stable_sort(all, {}, [](const auto& each) { return each.recall.value_or(2); });
  TextTable table;
  table.add({"CLASS", "SAMPLES", "RECALL", "PRECISION", "TAKEN FOR"});
  for (const auto& each : all)
    table.add({fmt::format("{}", each.which), fmt::format("{}", each.samples), percentage(each.recall),
               percentage(each.precision),
               each.mistakes > 0 ? fmt::format("{} ({} times)", each.mistaken_for, each.mistakes) : "-"});
  if (classes_ > kMostClasses) return table.text();
  TextTable matrix;
  std::vector<std::string> head{"LABEL"};
  for (std::size_t predicted = 0; predicted < classes_; ++predicted) head.push_back(fmt::format("{}", predicted));
  matrix.add(std::move(head));
  for (std::size_t label = 0; label < classes_; ++label) {
    std::vector<std::string> row{fmt::format("{}", label)};
    for (std::size_t predicted = 0; predicted < classes_; ++predicted)
      row.push_back(count(label, predicted) == 0 ? "." : fmt::format("{}", count(label, predicted)));
    matrix.add(std::move(row));
  }
  return table.text() + "\nsamples of each label by the class that was predicted\n" + matrix.text();
}

nlohmann::ordered_json ConfusionMatrix::json() const {
  auto classes = nlohmann::ordered_json::array(), rows = nlohmann::ordered_json::array();
  for (std::size_t label = 0; label < classes_; ++label) {
    const auto each = figures(label);
    classes.push_back({{"class", label},
                       {"samples", each.samples},
                       {"recall", json_or_null(each.recall)},
                       {"precision", json_or_null(each.precision)}});
    rows.push_back(std::vector(counts_.begin() + static_cast<std::ptrdiff_t>(label * classes_),
                               counts_.begin() + static_cast<std::ptrdiff_t>((label + 1) * classes_)));
  }
  return {{"classes", std::move(classes)}, {"confusion", std::move(rows)}};
}

}  // namespace distdl::app
