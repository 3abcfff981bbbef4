// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// The neighbours of a rank in a tree of ranks.
struct TreePlace {
  int parent = -1;  ///< -1 for the root
  std::vector<int> children;
};

TreePlace binomial_place(int size, int root, int rank);
/// The place of a rank in tree 0 or 1 of a double tree. In each tree about half of the ranks are leaves.
TreePlace double_tree_place(int size, int root, int rank, int which);

/// A tree of ranks that sends a piece of the vector down from the root.
struct Stream {
  Piece piece;
  int parent = -1;
  std::vector<int> children;
};
/// Elements that a broadcast sends at a time.
std::size_t broadcast_segment(const ScheduleBuilder& build);
/// This rank's part of a broadcast along some trees. The first tree has the largest piece. `arrived` is called for each
/// piece in the output (at the root: input) when its forwarding has begun.
void broadcast(ScheduleBuilder& build, const std::vector<Stream>& streams,
               const std::function<void(Piece)>& arrived = {});

}  // namespace distdl::comm
