// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/app/model/trained_model.hpp>
#include <distdl/data/source.hpp>

namespace distdl::app {

/// One trained model, or several whose probabilities, or predicted numbers, are averaged. See Hansen and Salamon,
/// "Neural network ensembles", 1990.
class Ensemble {
 public:
  /// `names`: at least one, see TrainedModel. The models may differ, but take samples of the same shape and tell the
  /// same classes. Throws StorageError (incompatible) if they do not.
  Ensemble(const std::vector<std::string>& names, const kernels::Options& options);

  const TrainedModel& first() const { return *members_.front().model; }
  const std::vector<std::string>& checkpoints() const { return folders_; }
  std::size_t size() const { return members_.size(); }

  /// The probabilities of the classes for each term of the samples: (terms, classes), dense. `samples`: how many the
  /// batch has.
  std::vector<double> probabilities(const data::Batch& batch, std::int64_t samples);
  /// Likewise the predictions of a model that tells no classes: (samples, targets), normalized as it learnt them.
  std::vector<float> predictions(const data::Batch& batch, std::int64_t samples);
  /// Loss and correct predictions. Of one model they are those of its network, else of the mean probabilities. Labels
  /// below 0 are ignored.
  model::Totals evaluate(const data::Batch& batch, std::int64_t samples);

 private:
  struct Member {
    std::unique_ptr<TrainedModel> model;
    std::unique_ptr<model::Network> network;
  };
  static model::Network& loaded(Member& member, const data::Batch& batch, std::int64_t samples);

  std::vector<Member> members_;
  std::vector<std::string> folders_;
};

/// Adds the softmax of each row of `logits` (rows, classes), divided by `divisor`, to `sums`, which is as long.
void add_probabilities(std::span<const float> logits, std::size_t classes, double divisor, std::span<double> sums);

/// Cross-entropy in nats and correct predictions of rows of probabilities (rows, classes); labels below 0 are ignored.
model::Totals totals_of(std::span<const double> probabilities, std::size_t classes,
                        std::span<const std::int32_t> labels);

}  // namespace distdl::app
