// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <distdl/checkpoint/summary.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/network.hpp>

namespace distdl::app {

/// A model with the weights of a checkpoint, to be used and not trained. What it is, the checkpoint says.
class TrainedModel {
 public:
  /// `name` as checkpoint_at() takes it. Weights are the running averages (optim.ema_decay) if the run kept them.
  /// Throws StorageError: there is none, or it is damaged, or (incompatible) does not say what its model is;
  /// BackendUnavailable.
  TrainedModel(const std::string& name, const kernels::Options& options);

  const checkpoint::Summary& checkpoint() const { return summary_; }
  const model::Description& description() const { return description_; }
  kernels::Backend& backend() { return *backend_; }
  /// With the weights in it; of samples in groups of so many.
  std::unique_ptr<model::Network> network(std::int64_t samples);

 private:
  checkpoint::Summary summary_;
  model::Description description_;
  model::ModelTensors tensors_;
  std::unique_ptr<kernels::Backend> backend_;
  tensor::Buffer parameters_;
};

}  // namespace distdl::app
