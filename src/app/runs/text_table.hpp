// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace distdl::app {

/// Rows of equally wide columns, for people; the first column is for names, and its cells begin at the left. Characters
/// that a terminal would act on are replaced.
class TextTable {
 public:
  /// The cells of this column begin at the left, too.
  TextTable& left(std::size_t column);
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
  std::set<std::size_t> left_{0};
};

}  // namespace distdl::app
