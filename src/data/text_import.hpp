// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Any file, plain or gzip, as a set of tokens: each byte is one, the vocabulary is 256. Throws ConfigError if the file
/// is empty, StorageError if it is missing or damaged or if the output cannot be written.
Description import_text(const std::filesystem::path& text, const std::filesystem::path& output, Overwrite overwrite);

/// Numbers of tokens as other programs' tokenizers leave them: uint16, little-endian, plain or gzip, with llm.c's
/// header (256 int32, of which the first are 20240520, 1 and the number of tokens) or without, as nanoGPT has them.
/// Throws ConfigError if there are none, one is outside the vocabulary, or the header says another number of them; else
/// as import_text().
Description import_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary,
                          const std::filesystem::path& output, Overwrite overwrite);

/// What both read first: the number of tokens, all of which are in the vocabulary, or of bytes; at least one. Throw as
/// the imports do, but for the output.
std::int64_t count_tokens(const std::filesystem::path& tokens, std::int64_t vocabulary);
std::int64_t count_bytes(const std::filesystem::path& text);

}  // namespace distdl::data
