// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::app {

/// Adds a tokenizer, if there is one, as llama.cpp has it. `vocabulary`: rows of the model's table. Returns why it is
/// left out; empty: it is not.
std::string add_gguf_tokenizer(const std::optional<tokenizer::Tokenizer>& tokenizer, std::int64_t vocabulary,
                               checkpoint::GgufMetadata& all);

}  // namespace distdl::app
