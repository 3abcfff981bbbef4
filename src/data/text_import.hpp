// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>

#include <distdl/base/one_of.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Converts any file, plain, gzip or zstd, to a set of tokens: each byte is a token, and the vocabulary is 256. Throws
/// as import_text() of document_import.hpp does.
Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite);

/// How a file without a header stores token numbers: little-endian.
enum class TokenType { automatic, uint16, uint32 };
constexpr std::array<Named<TokenType>, 3> choices_of(TokenType) {
  return {{{TokenType::automatic, "auto", "by the file's header; uint16 if it has none"},
           {TokenType::uint16, "uint16", "as nanoGPT writes them"},
           {TokenType::uint32, "uint32", "for vocabularies above 65536"}}};
}

struct TokenImport {
  std::filesystem::path tokens;
  std::int64_t vocabulary = 50257;  ///< number of different tokens, at most kLargestVocabulary
  TokenType type = TokenType::automatic;
};

/// Converts the token numbers of other programs' tokenizers: format/token_file.hpp. Throws ConfigError if there are no
/// tokens, if one is outside the vocabulary, if the header has another number of them, if the file is something else,
/// or can be read only once, as a pipe; otherwise throws as import_text() does.
Description import_tokens(const TokenImport& import, const std::filesystem::path& output, Overwrite overwrite);

/// The first pass of import_tokens(): the number of tokens, all of which are in the vocabulary; at least one. Throws as
/// the import does, except for errors of the output.
std::int64_t count_tokens(const TokenImport& import);

}  // namespace distdl::data
