// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/options.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/data/token_set.hpp>
#include <distdl/model/network.hpp>

namespace distdl::train {

/// The samples to train and to judge on: images, or pieces of a text that do not overlap, each token's label the one
/// after it.
class Samples {
 public:
  /// `context`: tokens of a sample. Throws StorageError or ConfigError: no data set, sets of different kinds or shapes,
  /// nothing left to train on.
  Samples(const data::Options& options, std::int64_t context);

  const tensor::Shape& shape() const { return shape_; }
  std::int64_t classes() const { return classes_; }
  /// Labels of a sample: one, or one for each token.
  std::int64_t labels() const { return std::holds_alternative<data::TokenSet>(train_) ? shape_[0] : 1; }
  std::int64_t training() const { return training_; }      ///< samples per epoch
  std::int64_t validation() const { return validation_; }  ///< samples to judge on

  /// Loads samples `position` .. of the stream into the network.
  void load(model::Network& network, const data::Sampler& sampler, std::int64_t position);
  /// Loads validation samples first .. first + network.samples() - 1.
  void load_validation(model::Network& network, std::int64_t first);

 private:
  using Set = std::variant<data::ImageSet, data::TokenSet>;
  static Set open(const std::string& file, const data::Options& options);
  std::int64_t count(const Set& set) const;
  void copy_into(model::Network& network, Set& set);
  void copy_into(model::Network& network, data::ImageSet& set);
  void copy_into(model::Network& network, data::TokenSet& set);

  Set train_;
  std::unique_ptr<Set> separate_;  ///< nullptr: the validation samples are the last ones of train_
  tensor::Shape shape_;
  std::int64_t classes_ = 0, training_ = 0, validation_ = 0;
  std::vector<std::int64_t> indices_;
  std::vector<float> images_;
  std::vector<std::int32_t> tokens_, labels_;
};

/// Judges a model on the validation samples: fixed groups of samples, shared out among the ranks, summed in a fixed
/// order.
class Judge {
 public:
  /// `network` evaluates whole groups; a second one is made for the rest. References must outlive the judge. Throws
  /// ConfigError if the model's loss compares with something other than the samples' labels.
  Judge(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
        model::Network& network, Samples& samples);
  /// Collective. The parameter arena is in the backend's memory. Sums over all validation samples.
  model::Totals operator()(const float* parameters, comm::Communicator& communicator);

 private:
  model::Network& network_;
  Samples& samples_;
  std::unique_ptr<model::Network> rest_;
};

}  // namespace distdl::train
