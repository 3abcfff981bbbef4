// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/train/batches.hpp>

namespace distdl::train {
namespace {
data::ImageSet open_training_set(const data::Options& options) {
  require(!options.train.empty(),
          "data.train names no data set; make one with \"distdl data make shapes shapes.h5\" and set data.train to it");
  return data::ImageSet::open(options.train, options.cache_mib);
}
}  // namespace

Samples::Samples(const data::Options& options) : train_(open_training_set(options)) {
  const auto& train = train_.description();
  training_ = train.samples;
  if (options.validation.empty()) {
    require(options.holdout >= 0 && options.holdout < train.samples,
            "data.holdout is {}, but must be at least 0 and below the {} samples of \"{}\"", options.holdout,
            train.samples, options.train);
    training_ -= options.holdout;
    validation_ = options.holdout;
    return;
  }
  separate_ = std::make_unique<data::ImageSet>(data::ImageSet::open(options.validation, options.cache_mib));
  const auto& judge = separate_->description();
  require(judge.shape == train.shape && judge.classes == train.classes,
          "data.validation \"{}\" has samples {} of {} classes, data.train \"{}\" has {} of {}; they must agree",
          options.validation, tensor::to_string(judge.shape), judge.classes, options.train,
          tensor::to_string(train.shape), train.classes);
  validation_ = judge.samples;
}

void Samples::copy_into(model::Network& network, data::ImageSet& set) {
  images_.resize(indices_.size() * static_cast<std::size_t>(tensor::element_count(shape())));
  labels_.resize(indices_.size());
  set.read(indices_, images_.data(), labels_.data());
  network.set_batch(images_.data(), labels_.data());
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
    }
  }
  return total;
}

}  // namespace distdl::train
