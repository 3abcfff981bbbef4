// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <distdl/checkpoint/summary.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/options.hpp>
#include <distdl/model/network.hpp>
#include <distdl/model/options.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::app {

/// The model that a checkpoint's state describes. Throws StorageError (incompatible) if there is none in it, or one
/// that this program does not know.
model::Description model_in(const checkpoint::Summary& summary);
/// The keys of the model with which a checkpoint was made. Throws as model_in().
model::Options model_options_in(const checkpoint::Summary& summary);
/// Prefix of the names of a checkpoint's weights: "average/" if the run kept running averages, else "parameter/".
std::string weights_prefix_in(const checkpoint::Summary& summary);
/// The tokenizer of the set that a checkpoint was trained on, which is in its state. Nothing: there is none. Throws as
/// model_in() does.
std::optional<tokenizer::Tokenizer> tokenizer_in(const checkpoint::Summary& summary);

/// A trained model with the weights of a checkpoint. The checkpoint's state describes the model.
class TrainedModel {
 public:
  /// For `name` see checkpoint_at(). The weights are the running averages (optim.ema_decay) if the run kept them.
  /// Throws StorageError if there is no such checkpoint, if it is damaged, or (incompatible) if it does not describe
  /// its model; BackendUnavailable.
  TrainedModel(const std::string& name, const kernels::Options& options);

  const checkpoint::Summary& checkpoint() const { return summary_; }
  const model::Description& description() const { return description_; }
  kernels::Backend& backend() { return *backend_; }
  /// A network with these weights, for microbatches of so many samples.
  std::unique_ptr<model::Network> network(std::int64_t samples);

 private:
  checkpoint::Summary summary_;
  model::Description description_;
  model::ModelTensors tensors_;
  std::unique_ptr<kernels::Backend> backend_;
  tensor::Buffer parameters_;
};

}  // namespace distdl::app
