// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distdl::app {

/// How Hugging Face's Llama, Mistral and Qwen 2 name a tensor of a gpt of the variant llama ("h.3.attn.c_attn.weight").
/// Several names: those tensors are its rows, one behind the other. None: the tensor is not of such a model.
std::vector<std::string> llama_names(std::string_view name);

/// Likewise how llama.cpp names it ("h.3.attn.c_proj.weight": "blk.3.attn_output.weight"). A gpt of the variant gpt2
/// has one tensor where one of the variant llama has several.
std::vector<std::string> gguf_names(std::string_view name, bool is_llama);

}  // namespace distdl::app
