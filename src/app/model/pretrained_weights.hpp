// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/exchange/weights_file.hpp>
#include <distdl/model/models.hpp>

namespace distdl::app {

/// A model's weights from the file of another program.
struct PretrainedWeights {
  std::vector<float> arena;           ///< in the layout of the model's tensors
  std::vector<std::string> left_out;  ///< tensors of the model that were left out on request
  /// Changes that made tensors fit, in words: "wpe.weight: the first 256 of 1024 rows".
  std::vector<std::string> shortened;
};

/// The file of a PyTorch program, safetensors or of torch.save(), or a folder of Hugging Face with model.safetensors or
/// pytorch_model.bin, or with the shards that their index lists: GPT-2 of Hugging Face or nanoGPT, Llama, Mistral and
/// Qwen 2 of Hugging Face, ResNet of torchvision, a vision transformer of timm, or any model whose tensors have the
/// names and shapes of a model here. It ignores prefixes of wrappers ("transformer.", "model.", "module.",
/// "_orig_mod."), leading extents of 1, and buffers that are not weights (num_batches_tracked, the masks of GPT-2's
/// attention, whatever their type). GPT-2's matrices may be (in, out), as Hugging Face stores them. Weights that two
/// layers share may be stored once or twice. Positions beyond model.context are dropped; those of a vision
/// transformer for square images of another size are interpolated. Values are float32, or are
/// converted to it.
class PretrainedFile {
 public:
  /// Reads and checks the headers. Throws StorageError as checkpoint::read_safetensors() does.
  explicit PretrainedFile(const std::filesystem::path& file);

  /// The number of classes or tokens, from the last tensor of the model in `options`. Throws StorageError
  /// (incompatible) if the file does not have it.
  std::int64_t classes(const model::Options& options, const tensor::Shape& sample) const;

  /// Tensors that match `without` may be missing or have other shapes. Throws StorageError (incompatible) that
  /// describes all misfits or names a tensor with values that are not finite, and UsageError for a pattern of `without`
  /// that matches nothing.
  PretrainedWeights read(const model::Description& model, const model::ModelTensors& tensors,
                         const checkpoint::Patterns& without);

 private:
  void add(const std::filesystem::path& file);
  std::vector<std::byte> values_of(const checkpoint::SafetensorsTensor& tensor, std::size_t elements);

  std::filesystem::path name_;                  ///< as the user gave it
  std::vector<checkpoint::WeightsFile> files_;  ///< several shards, or one
  checkpoint::SafetensorsFile content_;         ///< the tensors of all files
  std::map<std::string, std::size_t> places_;   ///< index in `files_` of each tensor
};

}  // namespace distdl::app
