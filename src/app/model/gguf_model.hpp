// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/checkpoint/exchange/export.hpp>

namespace distdl::app {

/// A gpt as llama.cpp's convert_hf_to_gguf.py writes it: architecture "gpt2", "llama", or with model.qkv_bias "qwen2".
struct GgufModel {
  checkpoint::GgufMetadata metadata;  ///< sizes, and the tokenizer of the set if the checkpoint has one
  std::vector<checkpoint::ExportedTensor> tensors;
  std::string note;  ///< for people: what is left out; empty: nothing
};

/// `matrices`: float32, or the type of 16 bits to which matrices are rounded; vectors and learnt positions stay
/// float32. Throws UsageError for another model than gpt and for what llama.cpp cannot compute, and as
/// pytorch_tensors() does.
GgufModel gguf_model(const checkpoint::Summary& checkpoint, tensor::DataType matrices);

}  // namespace distdl::app
