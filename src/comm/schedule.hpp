// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm {

/// Bytes of Space::shared per rank and operation.
constexpr std::size_t kSharedBytes = std::size_t{256} << 10;
/// Bytes of Space::shared per rank and operation with Schedule::is_short.
constexpr std::size_t kShortSharedBytes = 104;

/// The memory that a step accesses. A rank sends from and receives into its own memory. The steps reduce, signal and
/// await also access the memory of the other ranks of the node.
enum class Space : std::uint8_t {
  input,    ///< the caller's operand; `part` is the number of a partial sum
  output,   ///< the caller's result; may be the same memory as the input (see in_place_offset())
  scratch,  ///< private to the rank and the operation
  shared,   ///< the operation's area in shared memory: all ranks of the node may read and write it
};

/// Elements [first, first + count) of a space of a rank.
struct Block {
  std::int32_t rank = 0;
  Space space = Space::input;
  std::uint16_t part = 0;
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const Block&) const = default;
};

/// A source of a reduce step; for `reductions` see comm::ReduceSource.
struct Operand {
  Block block;
  std::uint16_t reductions = 0;
};

/// The next action of a rank. Steps run in order. Send and receive only begin a transfer.
struct ScheduleStep {
  enum class Kind : std::uint8_t {
    send,     ///< begin to send `block` to `peer`; joins `group`
    receive,  ///< begin to receive `block` from `peer`; joins `group`
    wait,     ///< wait until all transfers of `group` so far are done
    reduce,   ///< compute targets = reduction of the sources
    signal,   ///< show the node that this rank has reached `stage` (stages ascend within an operation, from 2;
              ///< 1 means "arrived": Execution signals and awaits it before the first step where reads_node_ranks)
    await,    ///< wait until `peer`, on the same node, has signalled `stage` or a later one
  };
  Kind kind = Kind::wait;
  std::uint16_t group = 0;
  std::int32_t peer = 0;
  std::uint32_t stage = 0;
  Block block{};
  std::uint32_t sources = 0, source_count = 0;  ///< range in Schedule::sources
  std::uint32_t targets = 0, target_count = 0;  ///< range in Schedule::targets
  bool last = false;                            ///< reduce: this writes the final result (an average is divided here)
};

/// A collective operation as a list of steps of one rank. make_schedule() creates it, check_schedules() verifies it,
/// and Execution runs it. Messages between two ranks are matched in the order of their steps.
struct Schedule {
  int rank = 0;
  std::vector<ScheduleStep> steps;
  std::vector<Operand> sources;
  std::vector<Block> targets;
  std::size_t scratch = 0;  ///< elements
  std::size_t shared = 0;   ///< elements
  int groups = 0;
  bool uses_node_ranks = false;   ///< it has signal or await steps
  bool is_short = false;          ///< no rank's Space::shared exceeds kShortSharedBytes; equal on all ranks of the node
  bool reads_node_ranks = false;  ///< it accesses input or output of other ranks, which must be in shared memory
};

enum class Collective : std::uint8_t {
  barrier,
  broadcast,  ///< sends `count` elements of root's input to all outputs
  reduce,     ///< writes the sum to root's output
  all_reduce,
  reduce_scatter,  ///< rank r's output: the sum over its slice of counts[r] elements
  all_gather,      ///< rank r contributes counts[r] elements; outputs contain all in rank order
  all_to_all,      ///< input: send_counts[r] elements for each rank r; output: receive_counts[r] elements from each
  gather,          ///< like all_gather, but only to root
  scatter,         ///< distributes root's input in slices of counts[r]
};

/// The name in tools and logs, such as "all_reduce".
std::string_view name_of(Collective collective);
/// Whether it is reduce, all-reduce or reduce-scatter.
bool is_sum(Collective collective);

/// The order of the additions of a floating-point sum.
enum class Order : std::uint8_t {
  deterministic,  ///< along the tree of sum_tree.hpp, so that the result does not depend on the number and placement of
                  ///< ranks
  any,            ///< the fastest order
};

/// The parameters of a collective on which a schedule depends. They are equal on all ranks, except for `rank` and the
/// counts of all_to_all.
struct Problem {
  Collective collective = Collective::barrier;
  int rank = 0;
  int size = 1;
  int root = 0;
  std::vector<int> nodes;           ///< node of each rank: equal for ranks that share memory; size entries
  std::size_t count = 0;            ///< broadcast, reduce, all_reduce: elements; all_to_all: see below
  std::vector<std::size_t> counts;  ///< reduce_scatter, all_gather, gather, scatter: elements per rank
  std::vector<std::size_t> send_counts, receive_counts;  ///< all_to_all; all are equal to `count` unless that is 0
  std::size_t element = 1;                               ///< bytes of an element
  /// Reductions: the leaves of each rank and their number. Empty ranges mean one leaf per rank. A rank's input has one
  /// part per node of cover(range, leaves); a rank without leaves has none.
  int leaves = 0;
  std::vector<LeafRange> ranges;
  bool operator==(const Problem&) const = default;
};

/// Throws ConfigError for an invalid problem.
void check(const Problem& problem);
bool is_on_one_node(const Problem& problem);

/// If input and output are the same memory, input element 0 is output element in_place_offset(). For all_gather and
/// gather this is the offset of the own slice of the output, for reduce_scatter and scatter the negative offset of the
/// own slice of the input, else 0. Every schedule works both in place and out of place. The only exception is
/// all_to_all on a rank whose send_counts and receive_counts differ, or with Choice::disjoint, which is never in place.
std::ptrdiff_t in_place_offset(const Problem& problem);

/// An algorithm for collectives, see algorithms/algorithm.hpp. Algorithms are compared by address.
struct Algorithm;
/// The algorithm with this name, such as "recursive_halving". Throws ConfigError that lists the possible names.
const Algorithm* algorithm_of(std::string_view name);
std::string_view name_of(const Algorithm& algorithm);

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t segment = 0;  ///< elements sent at a time, so that additions overlap with messages; 0: all at once
  bool staged = false;      ///< hierarchical: this node's ranks use shared memory in pieces (may differ by node)
  Order order = Order::deterministic;
  bool disjoint = false;  ///< all_to_all: no rank of this node has its result in the place of its values
  bool operator==(const Choice&) const = default;
};

}  // namespace distdl::comm
