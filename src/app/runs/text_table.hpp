// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace distdl::app {

/// Rows of equally wide columns, for people; the first column is for names. Characters that a terminal would act on are
/// replaced.
class TextTable {
 public:
  void add(std::vector<std::string> row);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

}  // namespace distdl::app
