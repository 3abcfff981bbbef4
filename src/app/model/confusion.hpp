// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace distdl::app {

/// How often samples of each class were taken for each class.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(std::size_t classes) : classes_(classes), counts_(classes * classes) {}
  /// Both are from 0 to classes - 1.
  void add(std::size_t label, std::size_t predicted) { ++counts_[label * classes_ + predicted]; }

  /// A table of the classes with samples, recall, precision and the class that each is taken for most often, the least
  /// recall first; below it the whole matrix, a row for each label, if there are few classes.
  std::string text() const;
  /// Keys `classes`, a list with class, samples, recall and precision (null: not defined), and `confusion`, the rows of
  /// the matrix.
  nlohmann::ordered_json json() const;

 private:
  struct ClassFigures;

  std::int64_t count(std::size_t label, std::size_t predicted) const { return counts_[label * classes_ + predicted]; }
  ClassFigures figures(std::size_t which) const;

  std::size_t classes_;
  std::vector<std::int64_t> counts_;  ///< a row for each label
};

}  // namespace distdl::app
