// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <distdl/app/model/ensemble.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {

Ensemble::Ensemble(const std::vector<std::string>& names, const kernels::Options& options) {
  for (const std::string& name : names) {
    members_.push_back({std::make_unique<TrainedModel>(name, options), nullptr});
    const auto& model = *members_.back().model;
    folders_.push_back(model.checkpoint().folder.string());
    const auto &mine = model.description(), &expected = first().description();
    if (mine.sample == expected.sample && mine.classes == expected.classes &&
        mine.loss.index() == expected.loss.index())
      continue;
    throw StorageError(
        fmt::format(
            "the model of \"{}\" takes {} of {}, but that of \"{}\" takes {} of {}: an ensemble needs models for "
            "the same data",
            folders_.back(), tensor::to_string(mine.sample), mine.classes, folders_.front(),
            tensor::to_string(expected.sample), expected.classes),
        ExitCode::incompatible);
  }
}

model::Network& Ensemble::loaded(Member& member, const data::Batch& batch, std::int64_t samples) {
  if (!member.network || member.network->samples() != samples) member.network = member.model->network(samples);
  member.network->set_batch(batch.samples(), batch.wanted());
  return *member.network;
}

std::vector<double> Ensemble::probabilities(const data::Batch& batch, std::int64_t samples) {
  const auto classes = static_cast<std::size_t>(first().description().classes);
  std::vector<double> sums;
  for (Member& member : members_) {
    const auto logits = loaded(member, batch, samples).logits();
    sums.resize(logits.size());
    add_probabilities(logits, classes, static_cast<double>(members_.size()), sums);
  }
  return sums;
}

std::vector<float> Ensemble::predictions(const data::Batch& batch, std::int64_t samples) {
  std::vector<float> means;
  for (Member& member : members_) {
    const auto values = loaded(member, batch, samples).logits();
    means.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) means[i] += values[i] / static_cast<float>(members_.size());
  }
  return means;
}

model::Totals Ensemble::evaluate(const data::Batch& batch, std::int64_t samples) {
  if (members_.size() == 1) return loaded(members_.front(), batch, samples).evaluate();
  const auto classes = static_cast<std::size_t>(first().description().classes);
  return totals_of(probabilities(batch, samples), classes, batch.labels);
}

void add_probabilities(std::span<const float> logits, std::size_t classes, double divisor, std::span<double> sums) {
  std::vector<double> powers(classes);
  for (std::size_t row = 0; row + classes <= logits.size(); row += classes) {
    const auto values = logits.subspan(row, classes);
    const float largest = *std::max_element(values.begin(), values.end());
    double sum = 0;
    for (std::size_t i = 0; i < classes; ++i) sum += powers[i] = std::exp(static_cast<double>(values[i] - largest));
    for (std::size_t i = 0; i < classes; ++i) sums[row + i] += powers[i] / sum / divisor;
  }
}

model::Totals totals_of(std::span<const double> probabilities, std::size_t classes,
                        std::span<const std::int32_t> labels) {
  model::Totals totals;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) continue;
    const auto row = probabilities.subspan(i * classes, classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    // The loss would be infinite for a class that has probability 0 in all models.
    totals.loss -= std::log(std::max(row[label], std::numeric_limits<double>::min()));
    totals.correct += std::max_element(row.begin(), row.end()) - row.begin() == static_cast<std::ptrdiff_t>(label);
    totals.count += 1;
  }
  return totals;
}

}  // namespace distdl::app
