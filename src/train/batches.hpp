// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/options.hpp>
#include <distdl/data/sampler.hpp>
#include <distdl/model/network.hpp>

namespace distdl::train {

/// The samples to train and to judge on.
class Samples {
 public:
  /// Throws StorageError or ConfigError: no data set, not images, sets of different shapes, nothing left to train on.
  explicit Samples(const data::Options& options);

  const tensor::Shape& shape() const { return train_.description().shape; }
  std::int64_t classes() const { return train_.description().classes; }
  std::int64_t training() const { return training_; }      ///< samples per epoch
  std::int64_t validation() const { return validation_; }  ///< samples to judge on

  /// Loads samples `position` .. of the stream into the network.
  void load(model::Network& network, const data::Sampler& sampler, std::int64_t position);
  /// Loads validation samples first .. first + network.samples() - 1.
  void load_validation(model::Network& network, std::int64_t first);

 private:
  void copy_into(model::Network& network, data::ImageSet& set);

  data::ImageSet train_;
  std::unique_ptr<data::ImageSet> separate_;  ///< nullptr: the validation samples are the last ones of train_
  std::int64_t training_ = 0, validation_ = 0;
  std::vector<std::int64_t> indices_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
};

/// Judges a model on the validation samples: fixed groups of samples, shared out among the ranks, summed in a fixed
/// order.
class Judge {
 public:
  /// `network` evaluates whole groups; a second one is made for the rest. References must outlive the judge.
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
