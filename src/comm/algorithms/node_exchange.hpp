// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A block of one rank of a node for other ranks: for their outputs, or for the scratch memory of a rank that forwards
/// it.
struct Handover {
  Block from;
  std::vector<Block> to;  ///< targets of the same length
};

/// Exchanges blocks between the ranks of a node, directly or staged through the shared areas in chunks. Directly: the
/// rank with the scratch memory, or else the giving rank, reads other ranks' inputs and writes their outputs. In
/// chunks: each turn begins when all ranks of the node have ended the previous one, and blocks that are stored in one
/// turn are read in the next.
class NodeExchange {
 public:
  enum class Way { direct, staged };
  NodeExchange(ScheduleBuilder& build, Way way);
  /// Works as Choice::staged says.
  explicit NodeExchange(ScheduleBuilder& build)
      : NodeExchange(build, build.choice().staged ? Way::staged : Way::direct) {}

  /// Exchanges the blocks of all ranks of the node, which are in the same order on each of them. Directly, blocks that
  /// other ranks move may be left out, and other ranks may not have finished afterwards.
  void run(const std::vector<Handover>& all);
  /// Whether each rank needs to list only the blocks that it moves itself.
  bool is_direct() const { return half_ == 0; }
  /// A barrier before outputs are written directly.
  void meet();
  /// Afterwards no rank accesses another rank's memory.
  void end() { meet(); }

 private:
  void run_directly(const std::vector<Handover>& all);
  void run_turn(const std::vector<Handover>& all, const std::vector<Piece>& places, std::size_t turn, bool offers);
  bool alone() const { return build_.node_ranks().size() == 1; }

  ScheduleBuilder& build_;
  std::size_t half_ = 0;  ///< half of the shared area, in elements; 0: direct
  std::size_t turn_ = 0;
  std::uint32_t stage_ = 0;
};

/// Elements [first, first + count) of a block.
Block part_of(Block block, std::size_t first, std::size_t count);

}  // namespace distdl::comm
