// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>

namespace distdl::comm::property {

/// A world: so many ranks, of which each `per_node` consecutive ones share memory.
struct Shape {
  int ranks = 1;
  int per_node = 1;
  std::vector<int> nodes() const;  ///< of each rank, as Problem::nodes
};

/// One call that all ranks make, drawn from a seed.
struct Case {
  std::uint64_t seed = 0;
  Collective collective = Collective::barrier;
  DataType type = DataType::byte;
  Reduction reduction = Reduction::sum;
  Order order = Order::deterministic;
  int root = 0;
  std::size_t count = 0;                         ///< as Problem::count
  std::vector<std::size_t> counts;               ///< as Problem::counts
  std::vector<std::vector<std::size_t>> matrix;  ///< all_to_all: elements from rank [a] to rank [b]
  std::optional<Leaves> leaves;
  bool in_place = false;
  bool tell_counts = false;  ///< though they are equal, the usual
  std::vector<bool> shared;  ///< per rank: its memory comes from allocate()
  std::optional<Choice> choice;

  bool reduces() const;
  bool fixed_order() const;
  bool has_equal_counts() const;
  int terms(const Shape& shape) const;  ///< of a sum
  /// Elements of all ranks' slices before that of `rank`.
  std::size_t first(int rank) const;
  /// Bytes that one rank needs at most, for input and output.
  std::size_t most_bytes() const;
};

/// `most_bytes`: of the memory of one rank, about.
Case draw(std::uint64_t seed, const Shape& shape, std::size_t most_bytes);
/// Every way to do it that is possible, with a few lengths of segments.
std::vector<Choice> choices(const Case& one, const Shape& shape);
Problem problem_of(const Case& one, const Shape& shape, int rank);
std::string describe(const Case& one);

}  // namespace distdl::comm::property
