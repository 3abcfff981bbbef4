// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {

/// A model's weights as another program had them.
struct PretrainedWeights {
  std::vector<float> arena;            ///< in the layout of the model's tensors
  std::vector<std::string> left_out;   ///< tensors of the model that have no values there, as was asked for
  std::vector<std::string> shortened;  ///< what was taken in part, in words: "wpe.weight: the first 256 of 1024 rows"
};

/// A safetensors file that a PyTorch program has written: Hugging Face's or nanoGPT's GPT-2, torchvision's ResNet,
/// timm's vision transformer, or any model whose tensors have the names and shapes of one here. Not looked at are: what
/// wrappers put before names ("transformer.", "model.", "module.", "_orig_mod."), extents of 1 before a shape, and
/// buffers that are no weights (num_batches_tracked, the masks of GPT-2's attention). GPT-2's matrices may be (in,
/// out), as Hugging Face has them; weights that two layers share may be there once or twice; positions beyond
/// model.context are cut off. Values are float32, or are converted to it.
class PretrainedFile {
 public:
  /// Reads and checks the header. Throws StorageError as checkpoint::read_safetensors does.
  explicit PretrainedFile(const std::filesystem::path& file);

  /// Into how many classes or tokens the model of the file sorts, by the last tensor of `options`' model.
  /// Throws StorageError incompatible if it is not there.
  std::int64_t classes(const model::Options& options, const tensor::Shape& sample) const;

  /// `without`: these tensors need not be there, nor fit. Throws StorageError incompatible, naming all that does not
  /// fit and how; UsageError for a pattern of `without` that stands for nothing.
  PretrainedWeights read(const model::Description& model, const model::ModelTensors& tensors,
                         const checkpoint::Patterns& without);

 private:
  checkpoint::OpenFile file_;
  checkpoint::SafetensorsFile content_;
};

}  // namespace distdl::app
