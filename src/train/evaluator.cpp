// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/train/evaluator.hpp>

namespace distdl::train {
Evaluator::Evaluator(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
                     model::Network& network, const data::Sources& samples)
    : network_(network), samples_(samples.validation.get()) {
  const std::int64_t labels = samples.training->labels_per_sample();
  require(std::holds_alternative<kernels::CrossEntropy>(model.loss) && network.terms() == labels,
          "the loss of model \"{}\" does not take {} label{} per sample, which the data set has; other targets need "
          "a training loop of your own, around model::Network",
          model.name, labels, labels == 1 ? "" : "s");
  std::int64_t rest = this->samples() % network.samples();
  if (rest > 0) rest_ = std::make_unique<model::Network>(backend, model, tensors, rest);
}

void Evaluator::load(model::Network& network, std::int64_t first) {
  std::vector<data::Source::Pick> picks(static_cast<std::size_t>(network.samples()));
  for (auto& pick : picks) pick.index = first++;
  samples_->read(picks, batch_);
  network.set_batch(batch_.samples(), batch_.labels.data());
}

model::Totals Evaluator::operator()(const float* parameters, comm::Communicator& communicator) {
  std::int64_t whole = samples() / network_.samples();
  std::int64_t groups = whole + (rest_ ? 1 : 0);
  std::int64_t first = groups * communicator.rank().value / communicator.size();
  std::int64_t end = groups * (communicator.rank().value + 1) / communicator.size();
  network_.load_parameters(parameters);
  if (rest_) rest_->load_parameters(parameters);
  std::vector<model::Totals> mine;
  for (std::int64_t group = first; group < end; ++group) {
    auto& network = group < whole ? network_ : *rest_;
    load(network, group * network_.samples());
    mine.push_back(network.evaluate());
  }
  // Group by group, not sum by sum: the order of additions must not depend on the number of ranks.
  std::string packed(mine.size() * sizeof(model::Totals), '\0');
  if (!mine.empty()) std::memcpy(packed.data(), mine.data(), packed.size());
  model::Totals total;
  for (const auto& part : communicator.all_gather_strings(packed)) {
    for (std::size_t i = 0; i + sizeof(model::Totals) <= part.size(); i += sizeof(model::Totals)) {
      model::Totals group;
      std::memcpy(&group, part.data() + i, sizeof group);
      total.loss += group.loss;
      total.correct += group.correct;
      total.count += group.count;
    }
  }
  return total;
}

}  // namespace distdl::train
