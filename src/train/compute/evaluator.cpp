// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/mixing.hpp>
#include <distdl/train/compute/evaluator.hpp>

namespace distdl::train {
namespace {
bool is_mixed(const model::Description& model) {
  const auto* const entropy = std::get_if<kernels::CrossEntropy>(&model.loss);
  return entropy != nullptr && entropy->is_mixed;
}
}  // namespace

Evaluator::Evaluator(kernels::Backend& backend, const model::Description& model,
                     std::span<const model::ModelTensors> parts, std::span<model::Network* const> networks,
                     const data::Sources& samples, const parallel::Mesh& mesh, model::Network::Activations activations)
    : mesh_(mesh),
      place_(mesh.data().rank().value),
      places_(mesh.data().size()),
      samples_(samples.validation.get()),
      is_mixed_(is_mixed(model)) {
  const std::int64_t labels = samples.training->labels_per_sample();
  const bool has_classes = std::holds_alternative<kernels::CrossEntropy>(model.loss);
  require(has_classes ? samples.training->targets().empty() && networks.front()->terms() == labels
                      : !samples.training->targets().empty() && labels == model.classes,
          "the loss of model \"{}\" does not take {} label{} per sample, which the data set has; other targets need "
          "a training loop of your own, around model::Network",
          model.name, labels, labels == 1 ? "" : "s");
  constexpr std::uint32_t kTag = 0x5054;
  const std::int64_t rest = this->samples() % networks.front()->samples();
  for (std::size_t i = 0; i < networks.size(); ++i) {
    Part& part = parts_.emplace_back(Part{*networks[i], nullptr, std::nullopt});
    if (mesh.has_pipeline()) part.message.emplace(backend, mesh.pipeline(), kTag);
    if (rest > 0) part.rest = std::make_unique<model::Network>(backend, model, parts[i], rest, activations);
  }
}

void Evaluator::divide_among(std::span<const Rank> ranks) {
  const auto own = std::ranges::find(ranks, mesh_.world().rank());
  places_ = std::ssize(ranks);
  place_ = own == ranks.end() ? places_ : own - ranks.begin();
}

void Evaluator::load(model::Network& network, std::int64_t first) {
  std::vector<data::Source::Pick> picks(static_cast<std::size_t>(network.samples()));
  for (auto& pick : picks) pick.index = first++;
  {
    const ShownFile shown(samples_->name());
    samples_->read(picks, batch_);
    if (is_mixed_) data::with_whole_shares(batch_);
  }
  network.set_batch(batch_.samples(), batch_.wanted());
}

std::optional<model::Totals> Evaluator::evaluate_group(Part& part, std::int64_t group) {
  auto& network = group < samples() / group_size() ? part.whole : *part.rest;
  if (network.reads_samples() || network.has_loss()) load(network, group * group_size());
  if (part.message) pass_stage(part, network);
  if (!network.has_loss()) return std::nullopt;
  const model::Totals totals = part.message ? network.totals() : network.evaluate();
  return mesh_.is_first_of_group() ? std::optional(totals) : std::nullopt;
}

void Evaluator::evaluate_block(std::int64_t group, std::int64_t own_end, std::int64_t end,
                               std::vector<model::Totals>& totals) {
  for (std::size_t stage = 0; stage < parts_.size(); ++stage) {
    for (std::int64_t i = group; i < std::min(own_end, end); ++i)
      if (const auto found = evaluate_group(parts_[stage], i)) totals.push_back(*found);
    for (std::int64_t i = std::max(group, own_end); i < end; ++i) skip_(stage);
  }
}

void Evaluator::pass_stage(Part& part, model::Network& network) {
  const int rank = mesh_.pipeline().rank().value, ranks = mesh_.pipeline().size();
  part.message->settle();
  if (!network.reads_samples()) part.message->receive(network.input(), Rank((rank + ranks - 1) % ranks));
  network.forward(kernels::Phase::evaluation);
  if (!network.has_loss()) part.message->send(network.output(), Rank((rank + 1) % ranks));
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
  const std::int64_t groups = (samples() + group_size() - 1) / group_size();
  const std::int64_t first = groups * place_ / places_, end = std::min(groups, groups * (place_ + 1) / places_);
  const std::int64_t most = (groups + places_ - 1) / places_;  // of any rank
  const bool together = mesh_.has_parts() || skip_;            // its ranks stop before the same group
  // So many pass a stage one after the other, as those of training do: else all other ranks of a pipeline would wait.
  const std::int64_t block = mesh_.degrees().pipeline;
  for (const Part& part : parts_) {
    part.whole.load_parameters(parameters);
    if (part.rest) part.rest->load_parameters(parameters);
  }
  std::vector<model::Totals> mine;
  for (std::int64_t done = 0; done < most; done += kRound) {
    bool stop = stops();
    if (together && one_stops(communicator, stop)) return std::nullopt;
    const std::int64_t round_end = first + std::min(done + kRound, skip_ ? most : end - first);
    for (std::int64_t begin = first + done; begin < round_end && !stop; begin += block) {
      evaluate_block(begin, end, std::min(begin + block, round_end), mine);
      if (!together) stop = stops();
    }
    for (Part& part : parts_)
      if (part.message) part.message->settle();
    if (!together && one_stops(communicator, stop)) return std::nullopt;
  }
  return sum_of_groups(mine, communicator);
}

}  // namespace distdl::train
