// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/data/source.hpp>
#include <distdl/model/network.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/parcel.hpp>

namespace distdl::train {

/// Evaluates a model on the validation samples. The samples form fixed groups, which are divided among the replicas and
/// summed in a fixed order. In a pipeline a group passes all stages.
class Evaluator {
 public:
  /// `network` evaluates whole groups; a second network is created for the rest. The references must outlive the
  /// evaluator. Throws ConfigError if the targets of the model's loss are not the samples' labels.
  Evaluator(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
            model::Network& network, const data::Sources& samples, const parallel::Mesh& mesh);
  std::int64_t samples() const { return samples_ ? samples_->samples() : 0; }
  /// Collective. The parameter arena is in the backend's memory. Returns the sums over all validation samples, or
  /// nothing on all ranks if `stops()` became true on one of them.
  std::optional<model::Totals> operator()(const float* parameters, comm::Communicator& communicator,
                                          const std::function<bool()>& stops);
  /// For ranks that have some of the branches of a model: see Network.
  void set_sum_of_shards(const model::Network::SumShards& sum) {
    if (rest_) rest_->set_sum_of_shards(sum);
  }

 private:
  void load(model::Network& network, std::int64_t first);
  /// The totals, if this rank tells them.
  std::optional<model::Totals> evaluate_group(std::int64_t group);
  void pass_stage(model::Network& network);

  const parallel::Mesh& mesh_;
  model::Network& network_;
  data::Source* samples_;
  data::Batch batch_;
  std::unique_ptr<model::Network> rest_;
  std::optional<Parcel> parcel_;  ///< with a pipeline
};

}  // namespace distdl::train
