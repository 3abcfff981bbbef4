// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/exchange/export.hpp>

namespace distdl::app {

/// The graph of a checkpoint's model as it evaluates: without dropout, with the running statistics of batch norms, with
/// the running averages of weights if the run kept them. Input "input" (batch, C, H, W), normalized as the model has
/// learnt it, or "input_ids" (batch, sequence), int64; output "logits", or "output" of a model that predicts numbers.
/// Any batch; any sequence up to the model's context. Weights have the names of PyTorch's modules, see
/// pytorch_names.hpp. Throws as model_in() does, and UsageError that names a layer that ONNX does not have.
checkpoint::OnnxGraph onnx_graph(const checkpoint::Summary& checkpoint);

}  // namespace distdl::app
