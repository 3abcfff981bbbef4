// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <distdl/app/runs/text_table.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {

TextTable& TextTable::left(std::size_t column) {
  left_.insert(column);
  return *this;
}

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  widths_.resize(std::max(widths_.size(), row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
  rows_.push_back(std::move(row));
}

std::string TextTable::text() const {
  std::string all;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += (i == 0 ? "" : "  ") + (left_.contains(i) ? fmt::format("{:<{}}", row[i], widths_[i])
                                                        : fmt::format("{:>{}}", row[i], widths_[i]));
    all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return all;
}

}  // namespace distdl::app
