// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace distdl::comm {

/// Symbolic sums. Equal formulas have equal numbers (hash-consing), so two sums have the same operands and brackets if
/// their numbers are equal.
class Formulas {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0;  ///< memory that was never written

  /// Part `part` of the operand of rank `rank`.
  Id operand(int rank, int part);
  Id sum(Id left, Id right);
  /// The finished result, in which an average is divided.
  Id finished(Id value);

  /// Whether it is finished(a sum of all `operands`, each once), in any order.
  bool is_sum_of_each(Id id, const std::vector<Id>& operands);
  /// The formula as text, such as "((0 + 1) + 2)"; long texts are truncated.
  std::string text(Id id) const;

 private:
  struct Node {
    enum class Kind : std::uint8_t { nothing, operand, sum, finished } kind = Kind::nothing;
    std::uint32_t left = 0, right = 0;
  };
  Id intern(Node node);
  void write(Id id, std::string& text) const;

  std::vector<Node> nodes_{Node{}};
  std::unordered_map<std::uint64_t, Id> ids_;
  std::unordered_set<Id> proved_;  ///< formulas for which is_sum_of_each() was true
};

}  // namespace distdl::comm
