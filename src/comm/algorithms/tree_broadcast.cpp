// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>

#include <distdl/comm/algorithms/tree_broadcast.hpp>

namespace distdl::comm {
namespace {
constexpr std::size_t kAhead = 4;  ///< segments under way on each link
}  // namespace

TreePlace binomial_place(int size, int root, int rank) {
  const int place = (rank - root + size) % size;  // in the tree whose root is 0
  TreePlace found;
  if (place != 0) found.parent = ((place & (place - 1)) + root) % size;
  for (int bit = 1; bit < size && (place & bit) == 0; bit *= 2)
    if (place + bit < size) found.children.insert(found.children.begin(), (place + bit + root) % size);
  return found;
}

// The others than the root are 1 .. size - 1 of an in-order binary tree, where odd ones are leaves. The second tree
// mirrors them, or shifts them by one, so that the leaves of one are inner ranks of the other.
TreePlace double_tree_place(int size, int root, int rank, int which) {
  const int others = size - 1, place = (rank - root + size) % size;
  const bool mirrored = size % 2 == 1;
  const auto there = [&](int p) { return which == 0 || p == 0 ? p : mirrored ? size - p : p % others + 1; };
  const auto back = [&](int p) {
    const int q = which == 0 || p == 0 ? p : mirrored ? size - p : (p + others - 2) % others + 1;
    return (q + root) % size;
  };
  const int at = there(place);
  TreePlace found;
  if (at == 0) {
    int top = 1;
    while (2 * top < size) top *= 2;
    if (size > 1) found.children.push_back(back(top));
    return found;
  }
  const int bit = at & -at;
  found.parent = (at ^ bit) | 2 * bit;
  if (found.parent >= size) found.parent = at ^ bit;
  found.parent = back(found.parent);
  if (bit > 1) found.children.push_back(back(at - bit / 2));
  for (int half = bit / 2; half > 0; half /= 2)
    if (at + half < size) {
      found.children.push_back(back(at + half));
      break;
    }
  return found;
}

std::size_t broadcast_segment(const ScheduleBuilder& build) {
  return build.segment(std::max<std::size_t>(1, build.whole().count));
}

void broadcast(ScheduleBuilder& build, const std::vector<Stream>& streams, const std::function<void(Piece)>& arrived) {
  const std::size_t length = broadcast_segment(build);
  const std::size_t segments = segments_in(streams.front().piece.count, length);  // the first is the longest
  std::vector<std::array<int, kAhead>> arriving(streams.size()), leaving(streams.size());
  for (std::size_t s = 0; s < streams.size(); ++s)
    for (std::size_t i = 0; i < kAhead; ++i) arriving[s][i] = build.new_group(), leaving[s][i] = build.new_group();
  const bool is_root = build.rank() == build.problem().root;
  const auto post = [&](std::size_t t) {
    for (std::size_t s = 0; s < streams.size() && !is_root; ++s)
      build.receive(streams[s].parent, build.output(segment_of(streams[s].piece, t, length)), arriving[s][t % kAhead]);
  };
  std::size_t posted = 0;
  for (std::size_t t = 0; t < segments; ++t) {
    while (posted < std::min(segments, t + kAhead)) post(posted++);
    for (std::size_t s = 0; s < streams.size(); ++s) {
      build.wait(arriving[s][t % kAhead]);
      build.wait(leaving[s][t % kAhead]);
      const Piece piece = segment_of(streams[s].piece, t, length);
      for (int child : streams[s].children)
        build.send(child, is_root ? build.input(piece) : build.output(piece), leaving[s][t % kAhead]);
      if (arrived) arrived(piece);
    }
  }
  if (is_root) build.copy(build.input(build.whole()), build.output(build.whole()));
  for (const auto& groups : leaving)
    for (int group : groups) build.wait(group);
}

}  // namespace distdl::comm
