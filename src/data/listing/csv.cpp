// SPDX-License-Identifier: Apache-2.0
// A table of paths and labels, separated by commas or, in .tsv, by tabs. RFC 4180, but for line ends in fields.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/data/listing/image_files.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;
constexpr std::size_t kMostTable = std::size_t{1} << 30;  // bytes
constexpr std::array<std::string_view, 6> kPaths{"path", "file", "filename", "file_name", "image", "filepath"};
constexpr std::array<std::string_view, 4> kLabels{"label", "class", "target", "category"};

std::vector<std::string> fields_of(const std::string& line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == separator && !quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

std::optional<std::int32_t> number_of(const std::string& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? std::optional(number) : std::nullopt;
}

bool looks_like_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class Table final : public ImageFiles {
 public:
  explicit Table(const std::vector<fs::path>& sources) {
    for (const fs::path& source : sources) read_rows(source);
    const bool are_numbers =
        std::ranges::all_of(labels_, [](const auto& row) { return number_of(row.first).has_value(); });
    const bool look_like_numbers =
        std::ranges::all_of(labels_, [](const auto& row) { return looks_like_number(row.first); });
    for (auto& [text, number] : labels_) {
      require(
          are_numbers || !look_like_numbers || number_of(text),
          "\"{}\" has the label {}, but numbers of classes are from 0 to 2147483647; names of classes are not numbers",
          sources.front().string(), text);
      number = are_numbers ? *number_of(text) : static_cast<std::int32_t>(classes_);
      classes_ = std::max<std::int64_t>(classes_, std::int64_t{number} + 1);
    }
    for (std::size_t i = 0; i < images_.size(); ++i) images_[i].label = labels_.at(texts_[i]);
    require(!images_.empty(), "\"{}\" names no images", sources.front().string());
  }
  std::vector<std::byte> read(std::size_t number) override { return read_image_file(images_[number].name); }

 private:
  void read_rows(const fs::path& source) {
    std::istringstream file(read_regular(resolved(source), kMostTable));
    const char separator = source.extension() == ".tsv" ? '\t' : ',';
    std::size_t path = 0, label = 1, number = 0;
    for (std::string line; std::getline(file, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (++number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
      if (line.empty()) continue;
      const auto fields = fields_of(line, separator);
      if (number == 1) {
        const auto in = [&](const auto& names) {
          return static_cast<std::size_t>(std::ranges::find_first_of(fields, names) - fields.begin());
        };
        const std::size_t paths = in(kPaths), labels = in(kLabels);
        if (paths < fields.size() && labels < fields.size()) {
          path = paths, label = labels;
          continue;
        }
      }
      require(std::max(path, label) < fields.size(),
              "line {} of \"{}\" has {} fields, but a path and a label are expected", number, source.string(),
              fields.size());
      const fs::path image = source.parent_path() / fields[path];
      std::error_code error;
      const std::uint64_t bytes = fs::file_size(image, error);
      images_.push_back({image.string(), 0, error ? 0 : bytes});
      texts_.push_back(fields[label]);
      labels_[fields[label]] = 0;
    }
  }

  std::vector<std::string> texts_;              ///< the label of each image as it is written
  std::map<std::string, std::int32_t> labels_;  ///< sorted by code points
};
}  // namespace

Listing csv_tables() {
  return {.what = "tables of paths and labels, .csv or .tsv",
          .is_of = [](const fs::path& source) { return source.extension() == ".csv" || source.extension() == ".tsv"; },
          .list = [](const std::vector<fs::path>& sources) -> std::unique_ptr<ImageFiles> {
            return std::make_unique<Table>(sources);
          }};
}

}  // namespace distdl::data
