// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/exchange/exported_tensor.hpp>
#include <distdl/model/description.hpp>

// How PyTorch's programs name and store the weights of the models that are here, too.
namespace distdl::app {

enum class PytorchLayout {
  modules,      ///< as torchvision, timm and nanoGPT: linear layers are (out, in)
  hugging_face  ///< as transformers: GPT-2's matrices are (in, out), as its Conv1D has them; Llama has its own names
};

/// True if GPT-2 of Hugging Face has this matrix in a Conv1D, which is (in, out).
bool is_conv1d(std::string_view name);

/// The weights of a checkpoint's model, and nothing else, under the names and in the shapes of a PyTorch module's
/// state_dict(): resnet of torchvision, vit of timm, gpt of nanoGPT or Hugging Face; other models as modules with the
/// names of their layers. What two layers share is there under both names. They are the running averages
/// (optim.ema_decay) if the run kept them. Throws StorageError (incompatible) if the checkpoint does not describe its
/// model.
std::vector<checkpoint::ExportedTensor> pytorch_tensors(const checkpoint::Summary& checkpoint, PytorchLayout layout);

/// The rows of a tensor of `model` that other programs have as several tensors: queries, keys and values, or gate and
/// value. One name: all rows.
std::vector<checkpoint::ExportedTensor> divided_rows(const model::Description& model,
                                                     const checkpoint::ExportedTensor& whole,
                                                     const std::vector<std::string>& names);

}  // namespace distdl::app
