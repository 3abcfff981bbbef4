// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A block that a rank of a node has for others: for their outputs, or for the scratch of one that sends it on.
struct Handover {
  Block from;
  std::vector<Block> to;  ///< of the same length
};

/// How the ranks of a node hand blocks to each other: directly, or staged through the shared areas, in chunks.
/// Directly, the rank with the scratch does it, or else the one that gives: it reads other ranks' inputs and
/// writes their outputs. In chunks, each turn begins when all ranks of the node have ended the one before, and what is
/// put there in one turn is taken in the next.
class NodeExchange {
 public:
  enum class Way { direct, staged };
  NodeExchange(ScheduleBuilder& build, Way way);
  /// As Choice::staged says.
  explicit NodeExchange(ScheduleBuilder& build)
      : NodeExchange(build, build.choice().staged ? Way::staged : Way::direct) {}

  /// Of all ranks of the node, in the same order on each of them. Directly, those done by others may be missing, and
  /// others may still be at it afterwards.
  void run(const std::vector<Handover>& all);
  /// Has something only to be named where this rank has it done?
  bool is_direct() const { return half_ == 0; }
  /// All have come here before their outputs are written directly.
  void meet();
  /// No rank accesses another rank's memory any more.
  void end() { meet(); }

 private:
  void run_directly(const std::vector<Handover>& all);
  void run_turn(const std::vector<Handover>& all, const std::vector<Piece>& places, std::size_t turn, bool offers);
  bool alone() const { return build_.node_ranks().size() == 1; }

  ScheduleBuilder& build_;
  std::size_t half_ = 0;  ///< of the shared area, in elements; 0: directly
  std::size_t turn_ = 0;
  std::uint32_t stage_ = 0;
};

/// Elements [first, first + count) of a block.
Block part_of(Block block, std::size_t first, std::size_t count);

}  // namespace distdl::comm
