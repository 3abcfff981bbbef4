// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <distdl/tokenizer/kind/tokenizer_kind.hpp>

namespace distdl::tokenizer {

/// Byte-level BPE, as a tokenizer.json says. Throws ConfigError that begins with `name`.
std::unique_ptr<TokenizerKind> make_byte_level(std::string_view json, const std::string& name);

}  // namespace distdl::tokenizer
