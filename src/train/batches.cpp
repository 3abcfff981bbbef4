// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/train/batches.hpp>

namespace distdl::train {
namespace {
const data::Description& description_of(const std::variant<data::ImageSet, data::TokenSet>& set) {
  return std::visit([](const auto& each) -> const data::Description& { return each.description(); }, set);
}
}  // namespace

Samples::Set Samples::open(const std::string& file, const data::Options& options) {
  if (data::describe_file(file).kind == "tokens") return data::TokenSet::open(file, options.cache_mib);
  return data::ImageSet::open(file, options.cache_mib);
}

/// The last token of a text is a label only.
std::int64_t Samples::count(const Set& set) const {
  const auto& description = description_of(set);
  if (std::holds_alternative<data::ImageSet>(set)) return description.samples;
  return (description.samples - 1) / shape_[0];
}

Samples::Samples(const data::Options& options, std::int64_t context)
    : train_([&] {
        require(!options.train.empty(),
                "data.train names no data set; make one with \"distdl data make shapes shapes.h5\" and set data.train "
                "to it");
        return open(options.train, options);
      }()),
      shape_(description_of(train_).shape),
      classes_(description_of(train_).classes) {
  if (std::holds_alternative<data::TokenSet>(train_)) {
    require(context >= 1, "model.context is {}, but a sample needs at least one token", context);
    shape_ = {context};
  }
  training_ = count(train_);
  require(training_ >= 1, "\"{}\" has {} tokens, fewer than the model.context = {} of a sample, and one more",
          options.train, description_of(train_).samples, context);
  if (options.validation.empty()) {
    require(options.holdout >= 0 && options.holdout < training_,
            "data.holdout is {}, but must be at least 0 and below the {} samples of \"{}\"", options.holdout, training_,
            options.train);
    training_ -= options.holdout;
    validation_ = options.holdout;
    return;
  }
  separate_ = std::make_unique<Set>(open(options.validation, options));
  const auto &judge = description_of(*separate_), &train = description_of(train_);
  require(judge.kind == train.kind && judge.shape == train.shape && judge.classes == train.classes,
          "data.validation \"{}\" has {} {} of {} classes, data.train \"{}\" has {} {} of {}; they must agree",
          options.validation, judge.kind, tensor::to_string(judge.shape), judge.classes, options.train, train.kind,
          tensor::to_string(train.shape), train.classes);
  validation_ = count(*separate_);
}

void Samples::copy_into(model::Network& network, Set& set) {
  labels_.resize(indices_.size() * static_cast<std::size_t>(network.terms()));
  std::visit([&](auto& each) { copy_into(network, each); }, set);
}

void Samples::copy_into(model::Network& network, data::ImageSet& set) {
  images_.resize(indices_.size() * static_cast<std::size_t>(tensor::element_count(shape())));
  set.read(indices_, images_.data(), labels_.data());
  network.set_batch(images_.data(), labels_.data());
}

void Samples::copy_into(model::Network& network, data::TokenSet& set) {
  const std::int64_t length = shape_[0];
  tokens_.resize(labels_.size() + 1);
  for (std::size_t i = 0; i < indices_.size(); ++i) {
    std::int32_t* const sample = tokens_.data() + static_cast<std::int64_t>(i) * length;
    set.read(indices_[i] * length, length + 1, sample);
    std::copy_n(sample + 1, length, labels_.begin() + static_cast<std::int64_t>(i) * length);
  }
  network.set_batch(tokens_.data(), labels_.data());
}

void Samples::load(model::Network& network, const data::Sampler& sampler, std::int64_t position) {
  indices_.resize(static_cast<std::size_t>(network.samples()));
  for (auto& index : indices_) index = sampler.index(position++);
  copy_into(network, train_);
}

void Samples::load_validation(model::Network& network, std::int64_t first) {
  indices_.resize(static_cast<std::size_t>(network.samples()));
  std::iota(indices_.begin(), indices_.end(), separate_ ? first : training_ + first);
  copy_into(network, separate_ ? *separate_ : train_);
}

Judge::Judge(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
             model::Network& network, Samples& samples)
    : network_(network), samples_(samples) {
  require(
      std::holds_alternative<kernels::CrossEntropy>(model.loss) && network.terms() == samples.labels(),
      "the loss of model \"{}\" is not one of {} label{} a sample, which is what the data set has; other targets need "
      "a training loop of your own, around model::Network",
      model.name, samples.labels(), samples.labels() == 1 ? "" : "s");
  std::int64_t rest = samples.validation() % network.samples();
  if (rest > 0) rest_ = std::make_unique<model::Network>(backend, model, tensors, rest);
}

model::Totals Judge::operator()(const float* parameters, comm::Communicator& communicator) {
  std::int64_t whole = samples_.validation() / network_.samples();
  std::int64_t groups = whole + (rest_ ? 1 : 0);
  std::int64_t first = groups * communicator.rank().value / communicator.size();
  std::int64_t end = groups * (communicator.rank().value + 1) / communicator.size();
  network_.load_parameters(parameters);
  if (rest_) rest_->load_parameters(parameters);
  std::vector<model::Totals> mine;
  for (std::int64_t group = first; group < end; ++group) {
    auto& network = group < whole ? network_ : *rest_;
    samples_.load_validation(network, group * network_.samples());
    mine.push_back(network.evaluate());
  }
  // Group by group, not sum by sum: the order of additions must not depend on the number of ranks.
  std::string packed(mine.size() * sizeof(model::Totals), '\0');
  if (!mine.empty()) std::memcpy(packed.data(), mine.data(), packed.size());
  model::Totals total;
  for (const auto& part : communicator.exchange(packed)) {
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
