// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/comm/schedule.hpp>
#include <distdl/comm/schedule/sum_order.hpp>

namespace distdl::comm {

/// Elements [first, first + count) of a vector.
struct Piece {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
};

/// Part `index` of `parts` nearly equal parts that begin at multiples of `line` elements. The first part is the
/// longest; some may be empty.
Piece slice_of(Piece whole, std::size_t parts, std::size_t index, std::size_t line);
/// Part `index` of the parts of `length` elements each. Empty after the end.
Piece segment_of(Piece whole, std::size_t index, std::size_t length);
/// ceil(count / length).
std::size_t segments_in(std::size_t count, std::size_t length);
Piece overlap_of(Piece a, Piece b);

/// Collects the steps of one rank. Steps without elements are left out, except for the messages of a barrier.
class ScheduleBuilder {
 public:
  ScheduleBuilder(const Problem& problem, const Choice& choice);

  const Problem& problem() const { return problem_; }
  const Choice& choice() const { return choice_; }
  int rank() const { return problem_.rank; }
  int size() const { return problem_.size; }
  std::size_t line() const;  ///< elements in a cache line of 64 bytes, at least 1
  /// Elements sent at a time for pieces of up to `longest` elements: Choice::segment in whole lines, or all; at least
  /// 1.
  std::size_t segment(std::size_t longest) const;

  /// The ranks of this node including this one, ascending.
  const std::vector<int>& node_ranks() const { return node_ranks_; }

  /// The slice of the vector that rank `owner` owns: the slices of reduce_scatter, all_gather, gather and scatter in
  /// rank order; else nearly equal slices.
  Piece slice(int owner) const;
  Piece whole() const { return {0, total_}; }
  /// The elements of `piece` of the vector in a rank's operand and result.
  Block input(Piece piece, int part = 0) const { return input_of(rank(), piece, part); }
  Block output(Piece piece) const { return output_of(rank(), piece); }
  Block input_of(int owner, Piece piece, int part = 0) const;
  Block output_of(int owner, Piece piece) const;
  Block scratch(Piece piece) const { return {rank(), Space::scratch, 0, piece.first, piece.count}; }
  Block shared(Piece piece) const { return shared_of(rank(), piece); }
  static Block shared_of(int owner, Piece piece) { return {owner, Space::shared, 0, piece.first, piece.count}; }

  /// Reserves scratch memory and returns its offset in elements, a multiple of 64 bytes.
  std::size_t reserve_scratch(std::size_t count);
  std::size_t reserve_shared(std::size_t count);
  /// Declares that all ranks of the node reserve at most kShortSharedBytes, and do not call open_memory(). Many such
  /// operations may be under way. All ranks of the node must call this.
  void keep_short() { schedule_.is_short = true; }
  int new_group() { return schedule_.groups++; }

  void send(int peer, Block block, int group);
  void receive(int peer, Block block, int group);
  void wait(int group);
  void reduce(std::span<const Operand> sources, std::span<const Block> targets, bool last);
  void copy(Block from, Block to, bool last = false);
  /// Signals the next stage and returns it.
  std::uint32_t signal();
  void await(int peer, std::uint32_t stage);
  /// Awaits all other ranks of the node.
  void await_all(std::uint32_t stage);

  /// Declares that the schedule accesses input or output of other ranks. All ranks of the node must call this.
  void open_memory() { schedule_.reads_node_ranks = true; }

  Schedule take() { return std::move(schedule_); }

 private:
  ScheduleStep& add(ScheduleStep::Kind kind);
  bool is_empty(const Block& block) const;

  const Problem& problem_;
  const Choice& choice_;
  std::vector<int> node_ranks_;
  std::vector<std::size_t> offsets_;  ///< offsets of the slices, if the problem has counts
  std::size_t total_ = 0;
  std::vector<bool> idle_;  ///< per group: there was no transfer since the last wait
  std::uint32_t stage_ = 1;
  Schedule schedule_;
};

/// Operands from blocks and reductions of the same number.
std::vector<Operand> operands(std::span<const Block> blocks, std::span<const std::uint16_t> reductions);

}  // namespace distdl::comm
