// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <distdl/tokenizer/kind/tokenizer_kind.hpp>

namespace distdl::tokenizer {

/// A model of SentencePiece, from a tokenizer.model. Throws ConfigError that begins with `name`.
std::unique_ptr<TokenizerKind> make_sentencepiece(std::string_view content, const std::string& name);

}  // namespace distdl::tokenizer
