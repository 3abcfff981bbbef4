// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/data/document_import.hpp>
#include <distdl/data/format/decompressing_reader.hpp>

namespace distdl::data {

/// Some records of one file, in their order: lines of JSONL, rows of a table, or a piece of a text.
struct TextRecords {
  std::filesystem::path file;
  TextFormat format = TextFormat::text;
  std::int64_t first_line = 1;             ///< the line of the first record
  std::string bytes;                       ///< the records, one after the other
  std::vector<std::size_t> ends;           ///< where each record ends in `bytes`
  std::optional<std::size_t> column = {};  ///< place of the field in a table
  bool begins_document = true;             ///< false: the text goes on from the piece before
  bool ends_document = true;               ///< false: the text goes on in the next piece
};

/// Where a text may be cut, at the latest place before its end; 0: nowhere. A cut does not change tokens.
using FindCut = std::function<std::size_t(std::string_view text)>;

/// Reads a file, plain, gzip or zstd, as records. A row of a table ends with its line, unless that is inside quotes.
class TextRecordReader {
 public:
  /// `field`: of JSONL and tables; empty: all columns are wanted. Throws StorageError, and ConfigError if a table lacks
  /// the field.
  TextRecordReader(const std::filesystem::path& file, TextFormat format, const std::string& field, FindCut find_cut);
  /// About a mebibyte of records; nothing at the end. Throws StorageError; ConfigError for a record of more than 64
  /// MiB.
  std::optional<TextRecords> next();
  /// The names in the first line of a table.
  const std::vector<std::string>& columns() const noexcept { return columns_; }

 private:
  void fetch();
  std::optional<TextRecords> next_piece();
  void read_head(const std::string& field);
  std::size_t end_of_record();
  std::string taken(std::size_t bytes);

  DecompressingReader reader_;
  TextFormat format_;
  FindCut find_cut_;
  std::string ahead_;
  bool at_end_ = false, goes_on_ = false;  ///< goes_on_: a piece of the text has been handed out
  std::size_t scanned_ = 0;                ///< the part of `ahead_` in which ends of records were looked for
  bool is_quoted_ = false;                 ///< the next record has an open quote at `scanned_`
  std::int64_t line_ = 1;
  std::vector<std::string> columns_;
  std::optional<std::size_t> column_;
};

/// The text of a record: the field of a line of JSONL or of a row of a table, or the text itself. Nothing for a blank
/// line. Throws ConfigError that names file and line.
std::optional<std::string> text_of_record(const TextRecords& records, std::size_t number, const std::string& field);

/// All fields of a row of a table; nothing for a blank line.
std::optional<std::vector<std::string>> row_of_record(const TextRecords& records, std::size_t number);
/// The line where a record begins, counted from 1.
std::int64_t line_of_record(const TextRecords& records, std::size_t number);

}  // namespace distdl::data
