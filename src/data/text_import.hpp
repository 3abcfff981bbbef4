// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Converts any file, plain or gzip, to a set of tokens: each byte is a token, and the vocabulary is 256. Throws
/// ConfigError if the file is empty or can be read only once, as a pipe. Throws StorageError if it is missing or
/// damaged, or if the output cannot be written.
Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite);

/// Converts the token numbers of other programs' tokenizers: uint16, little-endian, plain or gzip. The file may have
/// llm.c's header (256 int32, of which the first are 20240520, 1 and the number of tokens) or none, as for nanoGPT.
/// Throws ConfigError if there are no tokens, if one is outside the vocabulary, or if the header has another number of
/// them; otherwise throws as import_text() does.
Description import_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary,
                          const std::filesystem::path& output, Overwrite overwrite);

/// The first pass of both imports: the number of tokens, all of which are in the vocabulary, or of bytes; at least one.
/// They throw as the imports do, except for errors of the output.
std::int64_t count_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary);
std::int64_t count_bytes(const std::filesystem::path& text);

}  // namespace distdl::data
