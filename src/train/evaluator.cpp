// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/train/evaluator.hpp>

namespace distdl::train {
Evaluator::Evaluator(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
                     model::Network& network, const data::Sources& samples, const parallel::Mesh& mesh)
    : mesh_(mesh), network_(network), samples_(samples.validation.get()) {
  const std::int64_t labels = samples.training->labels_per_sample();
  require(std::holds_alternative<kernels::CrossEntropy>(model.loss) && network.terms() == labels,
          "the loss of model \"{}\" does not take {} label{} per sample, which the data set has; other targets need "
          "a training loop of your own, around model::Network",
          model.name, labels, labels == 1 ? "" : "s");
  std::int64_t rest = this->samples() % network.samples();
  if (rest > 0) rest_ = std::make_unique<model::Network>(backend, model, tensors, rest);
  constexpr std::uint32_t kTag = 0x5054;
  if (mesh.has_pipeline()) parcel_.emplace(backend, mesh.pipeline(), kTag);
}

void Evaluator::load(model::Network& network, std::int64_t first) {
  std::vector<data::Source::Pick> picks(static_cast<std::size_t>(network.samples()));
  for (auto& pick : picks) pick.index = first++;
  samples_->read(picks, batch_);
  network.set_batch(batch_.samples(), batch_.labels.data());
}

std::optional<model::Totals> Evaluator::evaluate_group(std::int64_t group) {
  auto& network = group < samples() / network_.samples() ? network_ : *rest_;
  if (network.reads_samples() || network.has_loss()) load(network, group * network_.samples());
  if (parcel_) pass_stage(network);
  if (!network.has_loss()) return std::nullopt;
  const model::Totals totals = parcel_ ? network.totals() : network.evaluate();
  return mesh_.is_first_of_tensor() ? std::optional(totals) : std::nullopt;
}

void Evaluator::pass_stage(model::Network& network) {
  const int rank = mesh_.pipeline().rank().value;
  parcel_->settle();
  if (!network.reads_samples()) parcel_->receive(network.input(), Rank(rank - 1));
  network.forward(kernels::Phase::evaluation);
  if (!network.has_loss()) parcel_->send(network.output(), Rank(rank + 1));
}

namespace {
/// Whether one of the ranks has a reason to stop.
bool one_stops(comm::Communicator& communicator, bool self) {
  float flag = self ? 1 : 0;
  communicator.all_reduce(comm::Vector(&flag, 1, comm::DataType::float32)).wait();
  return flag > 0;
}

/// Group by group, not sum by sum: the order of additions must not depend on the number of ranks.
model::Totals sum_of_groups(const std::vector<model::Totals>& mine, comm::Communicator& communicator) {
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
}  // namespace

std::optional<model::Totals> Evaluator::operator()(const float* parameters, comm::Communicator& communicator,
                                                   const std::function<bool()>& stops) {
  constexpr std::int64_t kRound = 16;  // groups, between two questions whether a rank stops
  const std::int64_t groups = samples() / network_.samples() + (rest_ ? 1 : 0);
  const std::int64_t rank = mesh_.data().rank().value, ranks = mesh_.data().size();
  const std::int64_t first = groups * rank / ranks, end = groups * (rank + 1) / ranks;
  const std::int64_t most = (groups + ranks - 1) / ranks;  // of any rank
  const bool together = mesh_.has_parts();                 // its ranks stop before the same group
  network_.load_parameters(parameters);
  if (rest_) rest_->load_parameters(parameters);
  std::vector<model::Totals> mine;
  for (std::int64_t done = 0; done < most; done += kRound) {
    bool stop = stops();
    if (together && one_stops(communicator, stop)) return std::nullopt;
    for (std::int64_t group = first + done; group < std::min(first + done + kRound, end) && !stop; ++group) {
      if (const auto totals = evaluate_group(group)) mine.push_back(*totals);
      if (!together) stop = stops();
    }
    if (parcel_) parcel_->settle();
    if (!together && one_stops(communicator, stop)) return std::nullopt;
  }
  return sum_of_groups(mine, communicator);
}

}  // namespace distdl::train
