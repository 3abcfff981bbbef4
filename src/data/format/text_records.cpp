// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/known_formats.hpp>
#include <distdl/data/format/text_records.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kTextPiece = 1 << 20;       ///< bytes of records handed out together, or a little more
constexpr std::size_t kLongestPiece = 1 << 30;    ///< bytes without a place for a cut
constexpr std::size_t kLongestRecord = 64 << 20;  ///< bytes; an open quote makes a record of all that follows
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

char separator_of(TextFormat format) {
  return format == TextFormat::tsv ? '\t' : ',';
}

/// The fields of a row: RFC 4180.
std::vector<std::string> fields_of(std::string_view row, char separator) {
  if (row.ends_with('\n')) row.remove_suffix(1);
  if (row.ends_with('\r')) row.remove_suffix(1);
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const char c = row[i];
    if (c == '"' && is_quoted && i + 1 < row.size() && row[i + 1] == '"')
      fields.back() += row[++i];
    else if (c == '"' && (is_quoted || fields.back().empty()))
      is_quoted = !is_quoted;
    else if (c == separator && !is_quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

bool is_blank(std::string_view record) {
  return record.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", name);
  return text;
}
}  // namespace

TextRecordReader::TextRecordReader(const std::filesystem::path& file, TextFormat format, const std::string& field,
                                   FindCut find_cut)
    : reader_(file), format_(format), find_cut_(std::move(find_cut)) {
  fetch();
  if (format_ == TextFormat::text) return;
  const auto known = known_format(std::as_bytes(std::span(ahead_).first(std::min(ahead_.size(), kFormatHead))));
  require(known.empty(), "\"{}\" holds no records of text: it is {}", file.string(), known);
  if (ahead_.starts_with(kByteOrderMark)) ahead_.erase(0, kByteOrderMark.size());
  if (format_ != TextFormat::jsonl) read_head(field);
}

void TextRecordReader::fetch() {
  const std::size_t before = ahead_.size(), most = format_ == TextFormat::text ? kLongestPiece : kLongestRecord;
  require(before < most, "\"{}\": after line {} come more than {} bytes that cannot be divided; is a quote left open?",
          reader_.path().string(), line_ - 1, most);
  ahead_.resize(before + kTextPiece);
  ahead_.resize(before + reader_.read(std::as_writable_bytes(std::span(ahead_)).subspan(before)));
  at_end_ = ahead_.size() < before + kTextPiece;
}

/// The end of the next record, with its line end; npos if that is not read yet, or missing. Goes on where it was.
std::size_t TextRecordReader::end_of_record() {
  const bool has_quotes = format_ != TextFormat::jsonl;
  for (; scanned_ < ahead_.size(); ++scanned_) {
    if (ahead_[scanned_] == '"') is_quoted_ = has_quotes && !is_quoted_;
    if (ahead_[scanned_] == '\n' && !is_quoted_) return ++scanned_;
  }
  return std::string::npos;
}

/// Takes the bytes of whole records from what is ahead.
std::string TextRecordReader::taken(std::size_t bytes) {
  std::string records = ahead_.substr(0, bytes);
  line_ += std::count(records.begin(), records.end(), '\n');
  ahead_.erase(0, bytes);
  scanned_ -= std::min(bytes, scanned_);
  return records;
}

void TextRecordReader::read_head(const std::string& field) {
  std::size_t end = end_of_record();
  while (end == std::string::npos && !at_end_) {
    fetch();
    end = end_of_record();
  }
  columns_ = fields_of(taken(std::min(end, ahead_.size())), separator_of(format_));
  if (field.empty()) return;
  const auto found = std::ranges::find(columns_, field);
  require(found != columns_.end(), "\"{}\" has no column \"{}\": its first line names {}; choose one by --field",
          reader_.path().string(), field, quoted_list(columns_));
  column_ = static_cast<std::size_t>(found - columns_.begin());
}

std::optional<TextRecords> TextRecordReader::next_piece() {
  std::size_t cut = 0;
  while (!at_end_ && (ahead_.size() < kTextPiece || (cut = find_cut_(ahead_)) == 0)) fetch();
  if (at_end_) cut = ahead_.size();
  if (cut == 0) return std::nullopt;
  TextRecords piece{.file = reader_.path(),
                    .format = format_,
                    .first_line = 1,
                    .bytes = ahead_.substr(0, cut),
                    .ends = {cut},
                    .begins_document = !std::exchange(goes_on_, true),
                    .ends_document = at_end_};
  ahead_.erase(0, cut);
  return piece;
}

std::optional<TextRecords> TextRecordReader::next() {
  if (format_ == TextFormat::text) return next_piece();
  TextRecords records{
      .file = reader_.path(), .format = format_, .first_line = line_, .bytes = {}, .ends = {}, .column = column_};
  std::size_t used = 0;
  while (used < kTextPiece) {
    std::size_t end = end_of_record();
    if (end == std::string::npos && !at_end_) {
      if (used > 0) break;  // the rest comes with the next records
      fetch();
      continue;
    }
    end = std::min(end, ahead_.size());
    if (end == used) break;
    records.ends.push_back(end);
    used = end;
  }
  if (used == 0) return std::nullopt;
  records.bytes = taken(used);
  return records;
}

namespace {
std::string_view record_at(const TextRecords& records, std::size_t number) {
  const std::size_t begin = number == 0 ? 0 : records.ends[number - 1];
  return std::string_view(records.bytes).substr(begin, records.ends[number] - begin);
}
}  // namespace

std::int64_t line_of_record(const TextRecords& records, std::size_t number) {
  const auto before = std::string_view(records.bytes).substr(0, number == 0 ? 0 : records.ends[number - 1]);
  return records.first_line + std::count(before.begin(), before.end(), '\n');
}

std::optional<std::vector<std::string>> row_of_record(const TextRecords& records, std::size_t number) {
  const auto record = record_at(records, number);
  if (is_blank(record)) return std::nullopt;
  return fields_of(record, separator_of(records.format));
}

std::optional<std::string> text_of_record(const TextRecords& records, std::size_t number, const std::string& field) {
  const auto record = record_at(records, number);
  if (records.format == TextFormat::text) return std::string(record);
  if (is_blank(record)) return std::nullopt;
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("\"{}\", line {}: {}", records.file.string(), line_of_record(records, number), why));
  };
  if (records.format == TextFormat::jsonl) {
    const auto document = nlohmann::json::parse(record, nullptr, false);
    if (!document.is_object())
      refuse(
          "it is no object of JSON in UTF-8, of which JSONL has one in each line; --format text imports files as they "
          "are");
    const auto found = document.find(field);
    if (found == document.end() || !found->is_string()) {
      std::vector<std::string> names;
      for (const auto& [key, value] : document.items())
        if (value.is_string()) names.push_back(key);
      refuse(fmt::format("it has no text \"{}\"; its texts are {}; choose one by --field", field,
                         names.empty() ? "none" : quoted_list(names)));
    }
    return found->get<std::string>();
  }
  auto fields = fields_of(record, separator_of(records.format));
  if (fields.size() <= *records.column)
    refuse(fmt::format("it has {} columns, but \"{}\" is column {}", fields.size(), field, *records.column + 1));
  return std::move(fields[*records.column]);
}

}  // namespace distdl::data
