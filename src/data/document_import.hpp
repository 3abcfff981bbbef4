// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// How a file holds documents.
enum class TextFormat { automatic, text, jsonl, csv, tsv };
constexpr std::array<Named<TextFormat>, 5> choices_of(TextFormat) {
  return {{{TextFormat::automatic, "auto", "by the suffix: .jsonl, .ndjson, .json, .csv, .tsv; else text"},
           {TextFormat::text, "text", "the whole file is one document"},
           {TextFormat::jsonl, "jsonl", "each line is an object of JSON, and a document its field"},
           {TextFormat::csv, "csv", "each row is a document, in the column of the field"},
           {TextFormat::tsv, "tsv", "likewise, with tabs"}}};
}

struct TextImport {
  std::vector<std::filesystem::path> inputs;  ///< files, plain, gzip or zstd, and folders of files
  std::string tokenizer = "bytes";            ///< for Tokenizer::read(); "bytes": each byte is a token
  TextFormat format = TextFormat::automatic;
  std::string field = "text";
  /// A text of one token, put after each document; "": nothing. Without: the tokenizer's end of text; none for bytes.
  std::optional<std::string> separator = {};
  std::int64_t threads = 0;  ///< 0: as many as there are processors
};

/// The files of the inputs in the order in which they are read: folders with all that is in them, sorted by path,
/// without hidden files. Throws ConfigError if a folder has none, and StorageError.
std::vector<std::filesystem::path> text_files(const std::vector<std::filesystem::path>& inputs);

/// Converts documents to a set of tokens, which holds the tokenizer, too. The bytes of the set do not depend on the
/// number of threads. Documents without text are passed over. Each file is read once, and the output's folder needs
/// room for the tokens twice. Throws ConfigError for texts that are not of the format, for a tokenizer that is not
/// supported, and if there are no tokens; StorageError if a file is missing or damaged, or the output cannot be
/// written.
Description import_text(const TextImport& import, const std::filesystem::path& output, Overwrite overwrite);

}  // namespace distdl::data
