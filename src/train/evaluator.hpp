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

namespace distdl::train {

/// Evaluates a model on the validation samples. The samples form fixed groups, which are divided among the ranks and
/// summed in a fixed order.
class Evaluator {
 public:
  /// `network` evaluates whole groups; a second network is created for the rest. The references must outlive the
  /// evaluator. Throws ConfigError if the targets of the model's loss are not the samples' labels.
  Evaluator(kernels::Backend& backend, const model::Description& model, const model::ModelTensors& tensors,
            model::Network& network, const data::Sources& samples);
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
  model::Totals evaluate_group(std::int64_t group);

  model::Network& network_;
  data::Source* samples_;
  data::Batch batch_;
  std::unique_ptr<model::Network> rest_;
};

}  // namespace distdl::train
