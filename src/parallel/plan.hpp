// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/options.hpp>

namespace distdl::parallel {

constexpr std::int64_t kMostMicrobatches = 1 << 20;

/// The assignment of a step's microbatches to ranks. Every plan gives the same bits, because gradients are summed along
/// the fixed tree of comm::TreeNode over all microbatches.
struct MicrobatchPlan {
  int microbatches = 0;
  std::int64_t microbatch_size = 0;
  std::vector<comm::LeafRange> ranges;  ///< per rank, ascending and without gaps

  std::int64_t global_batch() const { return microbatches * microbatch_size; }
  comm::LeafRange of(Rank rank) const { return ranges.at(static_cast<std::size_t>(rank.value)); }
};

/// Returns the least floats of a bucket that takes turns in memory with others, of so many gradients or parameters: see
/// takes_turns().
std::size_t least_in_turn(const Options& options, std::size_t floats);

/// True if "auto" also chooses the numbers of replicas, stages and tensor ranks, which the options leave open.
bool chooses_degrees(const Options& options);

/// Divides units of work in proportion to `speeds` (relative, above 0), so that the last one is done as soon as can be.
/// Each gets at least one.
std::vector<int> proportional_shares(int units, const std::vector<double>& speeds);

/// Assigns microbatches in proportion to `speeds` (relative, one per rank, above 0), and at least one to each rank. If
/// the ranks are equally fast, their numbers differ by at most one. Throws ConfigError if there are fewer microbatches
/// than ranks, or if numbers are invalid.
MicrobatchPlan make_plan(const Options& options, const std::vector<double>& speeds);
/// Divides a range into so many parts, one after the other, whose lengths differ by one at most.
std::vector<comm::LeafRange> divided(comm::LeafRange range, std::size_t parts);
/// Returns the plan for equally fast ranks.
MicrobatchPlan make_plan(const Options& options, int world_size);

}  // namespace distdl::parallel
