// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm {

/// Bytes of Space::shared, per rank and operation.
constexpr std::size_t kSharedBytes = std::size_t{256} << 10;

/// The memory that a step works on. A rank sends from and receives into its own memory. The steps reduce, signal and
/// await also reach the memory of the other ranks of the node.
enum class Space : std::uint8_t {
  input,    ///< the caller's operand; `part` tells which of several partial sums
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

/// A source of a reduce step; `reductions` as in comm::ReduceSource.
struct Operand {
  Block block;
  std::uint16_t reductions = 0;
};

/// What one rank does next. Steps run in order; send and receive only begin.
struct ScheduleStep {
  enum class Kind : std::uint8_t {
    send,     ///< begin to send `block` to `peer`; joins `group`
    receive,  ///< begin to receive `block` from `peer`; joins `group`
    wait,     ///< until all transfers of `group` so far are done
    reduce,   ///< targets = reduction of the sources
    signal,   ///< show the node that this rank has reached `stage` (stages ascend within an operation, from 2;
              ///< 1 means "arrived": Execution signals and awaits it before the first step where reads_node_ranks)
    await,    ///< until `peer`, of the same node, has signalled `stage` or a later one
  };
  Kind kind = Kind::wait;
  std::uint16_t group = 0;
  std::int32_t peer = 0;
  std::uint32_t stage = 0;
  Block block{};
  std::uint32_t sources = 0, source_count = 0;  ///< in Schedule::sources
  std::uint32_t targets = 0, target_count = 0;  ///< in Schedule::targets
  bool last = false;                            ///< reduce: writes the final result (an average is divided here)
};

/// A collective operation as one rank performs it: data, made by make_schedule(), proved by check_schedules(), run by
/// Execution. The messages between two ranks are matched in the order of their steps.
struct Schedule {
  int rank = 0;
  std::vector<ScheduleStep> steps;
  std::vector<Operand> sources;
  std::vector<Block> targets;
  std::size_t scratch = 0;  ///< elements
  std::size_t shared = 0;   ///< elements
  int groups = 0;
  bool uses_node_ranks = false;   ///< has signal or await steps
  bool reads_node_ranks = false;  ///< accesses input or output of other ranks, which must lie in shared memory
};

enum class Collective : std::uint8_t {
  barrier,
  broadcast,  ///< count elements of root's input to all outputs
  reduce,     ///< sum to root's output
  all_reduce,
  reduce_scatter,  ///< rank r's output: the sum over its slice of counts[r] elements
  all_gather,      ///< rank r contributes counts[r] elements; outputs hold all in rank order
  all_to_all,      ///< input: send_counts[r] elements for each rank r; output: receive_counts[r] from each
  gather,          ///< as all_gather, to root only
  scatter,         ///< root's input in slices of counts[r]
};

/// "all_reduce": as tools and logs name it.
std::string_view name_of(Collective collective);
/// Throws ConfigError naming the possible ones.
Collective collective_of(std::string_view name);
/// Reduce, all-reduce and reduce-scatter.
bool is_sum(Collective collective);

/// May the result of a floating-point sum depend on how many ranks there are and where they run?
enum class Order : std::uint8_t {
  deterministic,  ///< no: along the tree of sum_tree.hpp
  any,            ///< yes, where that is faster
};

/// What is to be done, as far as a schedule depends on it. Equal on all ranks, but for `rank` and all_to_all's counts.
struct Problem {
  Collective collective = Collective::barrier;
  int rank = 0;
  int size = 1;
  int root = 0;
  std::vector<int> nodes;           ///< of each rank: equal where ranks share memory; size entries
  std::size_t count = 0;            ///< broadcast, reduce, all_reduce: elements; all_to_all: see below
  std::vector<std::size_t> counts;  ///< reduce_scatter, all_gather, gather, scatter: elements per rank
  std::vector<std::size_t> send_counts, receive_counts;  ///< all_to_all; all equal to `count` unless that is 0
  std::size_t element = 1;                               ///< bytes
  /// Reductions: the leaves of each rank and their number; empty ranges mean one leaf per rank. A rank's input has one
  /// part per node of cover(range, leaves); a rank without leaves has none.
  int leaves = 0;
  std::vector<LeafRange> ranges;
  bool operator==(const Problem&) const = default;
};

/// Throws ConfigError for a problem that makes no sense.
void check(const Problem& problem);
bool is_on_one_node(const Problem& problem);

/// Where input and output are one memory, input element 0 is output element in_place_offset(): 0, but for all_gather
/// and gather (own slice of the output) and, negative, reduce_scatter and scatter (the output is the own slice of the
/// input). Every schedule is right in place and out of place alike, but for all_to_all on a rank whose send_counts
/// differ from its receive_counts: there is no in place then.
std::ptrdiff_t in_place_offset(const Problem& problem);

/// A way to do collectives, see algorithms/algorithm.hpp; they are told apart by address.
struct Algorithm;
/// "recursive_halving". Throws ConfigError naming the possible ones.
const Algorithm* algorithm_of(std::string_view name);
std::string_view name_of(const Algorithm& algorithm);

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::size_t segment = 0;  ///< elements sent at a time, so that adding and sending overlap; 0: all at once
  bool staged = false;  ///< hierarchical: this rank's node goes through shared memory in pieces (may differ by node)
  Order order = Order::deterministic;
  bool operator==(const Choice&) const = default;
};

}  // namespace distdl::comm
