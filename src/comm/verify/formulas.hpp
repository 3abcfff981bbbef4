// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace distdl::comm {

/// Which sum a piece of memory holds, whatever the numbers: equal formulas have equal numbers (hash-consing), so two
/// sums are the same, operand by operand and bracket by bracket, if their numbers are.
class Formulas {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0;  ///< memory that was never written

  /// Part `part` of what rank `rank` brought along.
  Id operand(int rank, int part);
  Id sum(Id left, Id right);
  /// The finished result: where an average is divided.
  Id finished(Id value);

  /// Is it finished(a sum that has each of `operands` once)? In any order.
  bool is_sum_of_each(Id id, const std::vector<Id>& operands);
  /// "((0 + 1) + 2)", cut off when it gets long.
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
  std::unordered_set<Id> proved_;  ///< by is_sum_of_each()
};

}  // namespace distdl::comm
