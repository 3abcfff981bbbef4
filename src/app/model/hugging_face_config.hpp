// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <distdl/model/options.hpp>

// config.json beside the weights of Hugging Face: https://huggingface.co/docs/transformers/main_classes/configuration
namespace distdl::app {

/// Throws StorageError (incompatible) if `folder` has a config.json that describes another model than the job, with the
/// keys that would fit, or one that no model here is; corrupt if it is no JSON object. Members that are left out have
/// the values of transformers 4 and 5. A configuration without "model_type", as timm's, is not compared.
void require_same_config(const std::filesystem::path& folder, const model::Options& options);

/// The text of config.json for a gpt of so many tokens: GPT-2, Llama, or with model.qkv_bias Qwen 2.
std::string hugging_face_config(const model::Options& options, std::int64_t vocabulary);

}  // namespace distdl::app
