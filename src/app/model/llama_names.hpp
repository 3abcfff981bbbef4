// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distdl::app {

/// How Hugging Face's Llama, Mistral and Qwen 2 name a tensor of a gpt of the variant llama ("h.3.attn.c_attn.weight").
/// Several names: those tensors are its rows, one behind the other. None: the tensor is not of such a model.
std::vector<std::string> llama_names(std::string_view name);

}  // namespace distdl::app
