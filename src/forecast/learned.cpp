// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <distdl/forecast/learned.hpp>

namespace distdl::forecast {
namespace {
constexpr std::size_t kFeatures = 4;
constexpr double kPenalty = 1;  ///< penalty of a weight whose feature has a variance of 1
using Row = std::array<double, kFeatures>;

Row row_of(const RunFeatures& features) {
  return {std::log(features.ranks), std::log(features.flops), std::log(features.parameters),
          std::log(features.microbatches)};
}

double log_ratio(const LearnedRun& run) {
  return std::log(run.measured / run.forecast);
}

/// Solves a linear system of a positive definite matrix and a column, by Gauss's elimination.
Row solve(std::array<Row, kFeatures> matrix, Row column) {
  for (std::size_t i = 0; i < kFeatures; ++i)
    for (std::size_t j = i + 1; j < kFeatures; ++j) {
      const double factor = matrix[j][i] / matrix[i][i];
      for (std::size_t k = i; k < kFeatures; ++k) matrix[j][k] -= factor * matrix[i][k];
      column[j] -= factor * column[i];
    }
  for (std::size_t i = kFeatures; i-- > 0;) {
    for (std::size_t k = i + 1; k < kFeatures; ++k) column[i] -= matrix[i][k] * column[k];
    column[i] /= matrix[i][i];
  }
  return column;
}

class Regression {
 public:
  /// `runs`: not empty.
  explicit Regression(std::span<const LearnedRun> runs) {
    std::vector<Row> rows;
    for (const auto& run : runs) {
      rows.push_back(row_of(run.features));
      mean_ += log_ratio(run) / static_cast<double>(runs.size());
    }
    for (std::size_t f = 0; f < kFeatures; ++f) measure(rows, f);
    std::array<Row, kFeatures> products{};
    Row column{};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Row row = standard(rows[r]);
      for (std::size_t f = 0; f < kFeatures; ++f) {
        column[f] += row[f] * (log_ratio(runs[r]) - mean_);
        for (std::size_t g = 0; g < kFeatures; ++g) products[f][g] += row[f] * row[g];
      }
    }
    for (std::size_t f = 0; f < kFeatures; ++f) products[f][f] += kPenalty;
    weights_ = solve(products, column);
  }

  double factor(const RunFeatures& features) const {
    const Row row = standard(row_of(features));
    double sum = mean_;
    for (std::size_t f = 0; f < kFeatures; ++f) sum += weights_[f] * row[f];
    return std::exp(sum);
  }

 private:
  struct Range {
    double least = 0, most = 0, middle = 0, deviation = 0;
  };

  void measure(const std::vector<Row>& rows, std::size_t f) {
    const auto of_row = [f](const Row& row) { return row[f]; };
    const auto [least, most] = std::ranges::minmax(rows, {}, of_row);
    auto& range = ranges_[f];
    range = {least[f], most[f]};
    const auto count = static_cast<double>(rows.size());
    for (const Row& row : rows) range.middle += row[f] / count;
    for (const Row& row : rows) range.deviation += (row[f] - range.middle) * (row[f] - range.middle) / count;
    range.deviation = std::sqrt(range.deviation);
  }

  /// Scales features to means of 0 and variances of 1; 0 for a feature that is the same in all runs.
  Row standard(Row row) const {
    constexpr double kSame = 1e-9;
    for (std::size_t f = 0; f < kFeatures; ++f) {
      const auto& range = ranges_[f];
      const double within = std::clamp(row[f], range.least, range.most) - range.middle;
      row[f] = range.deviation > kSame ? within / range.deviation : 0;
    }
    return row;
  }

  double mean_ = 0;
  std::array<Range, kFeatures> ranges_;
  Row weights_{};
};
}  // namespace

Learned learn(std::span<const LearnedRun> runs, const RunFeatures& next) {
  Learned learned{.runs = runs.size()};
  if (runs.size() < Learned::kLeastRuns) return learned;
  const auto count = static_cast<double>(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<LearnedRun> others(runs.begin(), runs.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double factor = Regression(others).factor(runs[i].features);
    const double error = std::abs(factor * runs[i].forecast / runs[i].measured - 1);
    learned.error += error / count;
    learned.largest_error = std::max(learned.largest_error, error);
    learned.forecast_error += std::abs(runs[i].forecast / runs[i].measured - 1) / count;
  }
  learned.factor = Regression(runs).factor(next);
  return learned;
}

}  // namespace distdl::forecast
