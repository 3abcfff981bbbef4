// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/families.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>
#include <distdl/comm/algorithms/tree_reduction.hpp>

namespace distdl::comm {
namespace {

/// How a node's first rank to have the data, its leader, hands it to the others.
class LocalBroadcast {
 public:
  LocalBroadcast(ScheduleBuilder& build, const std::vector<int>& ranks, int leader) : build_(build), leader_(leader) {
    for (int q : ranks)
      if (q != leader) others_.push_back(q);
    if (others_.empty()) return;
    if (!build.choice().staged) {
      build.open_memory();
      return;
    }
    half_ = kSharedBytes / build.problem().element / kSharedHalves / build.line() * build.line();
    build.reserve_shared(kSharedHalves * half_);
  }

  /// The next piece lies at the leader.
  void pass_on(Piece piece) {
    if (others_.empty()) return;
    const std::size_t length = half_ ? half_ : std::max<std::size_t>(1, piece.count);
    for (std::size_t i = 0; i < segments_in(piece.count, length); ++i) pass_chunk(segment_of(piece, i, length));
  }

  /// The leader's memory may be used for something else only when all have read it.
  void end() {
    if (half_ || others_.empty()) return;
    if (build_.rank() != leader_) build_.signal();
    for (int q : others_)
      if (build_.rank() == leader_) build_.await(q, 2);
  }

 private:
  Block at_leader(Piece piece) const {
    if (half_) return ScheduleBuilder::shared_of(leader_, {chunk_ % kSharedHalves * half_, piece.count});
    return leader_ == build_.problem().root ? build_.input_of(leader_, piece) : build_.output_of(leader_, piece);
  }

  void pass_chunk(Piece piece) {
    if (build_.rank() != leader_) {
      build_.await(leader_, chunk_ + 2);
      build_.copy(at_leader(piece), build_.output(piece));
      if (half_) build_.signal();
    } else {
      for (int q : others_)
        if (half_ && chunk_ >= kSharedHalves) build_.await(q, chunk_);  // has taken what lay there, two chunks ago
      if (half_)
        build_.copy(build_.rank() == build_.problem().root ? build_.input(piece) : build_.output(piece),
                    at_leader(piece));
      build_.signal();
    }
    ++chunk_;
  }

  ScheduleBuilder& build_;
  int leader_;
  std::vector<int> others_;
  std::size_t half_ = 0;  ///< of the shared area, in elements; 0: straight from the leader's memory
  std::uint32_t chunk_ = 0;
};

}  // namespace

bool fits_hierarchical_sum(const Problem& problem) {
  std::size_t parts = 1;
  for (int each : parts_of(problem)) parts = std::max<std::size_t>(parts, each);
  return kSharedBytes / 2 / kSharedHalves / 64 >= parts * Nodes(problem).widest() && 64 % problem.element == 0;
}

void hierarchical_sum(ScheduleBuilder& build) {
  if (build.choice().staged)
    staged_node_sum(build);
  else
    direct_node_sum(build);
}

void hierarchical_broadcast(ScheduleBuilder& build) {
  const Nodes nodes(build.problem());
  const int root = build.problem().root, root_node = nodes.of[root], node = nodes.of[build.rank()];
  const auto leader = [&](int n) { return n == root_node ? root : nodes.ranks[n].front(); };
  LocalBroadcast local(build, nodes.ranks[node], leader(node));
  if (build.rank() == leader(node)) {
    const TreePlace place = binomial_place(static_cast<int>(nodes.ranks.size()), root_node, node);
    Stream stream{build.whole(), node == root_node ? -1 : leader(place.parent), {}};
    for (int child : place.children) stream.children.push_back(leader(child));
    broadcast(build, {stream}, [&](Piece piece) { local.pass_on(piece); });
  } else {
    const std::size_t length = broadcast_segment(build);
    for (std::size_t t = 0; t < segments_in(build.whole().count, length); ++t)
      local.pass_on(segment_of(build.whole(), t, length));
  }
  local.end();
}

void hierarchical_barrier(ScheduleBuilder& build) {
  const Nodes nodes(build.problem());
  const int node = nodes.of[build.rank()];
  const std::vector<int>& ranks = nodes.ranks[node];
  if (build.rank() != ranks.front()) return build.await(ranks.front(), build.signal());
  for (std::size_t i = 1; i < ranks.size(); ++i) build.await(ranks[i], 2);
  std::vector<int> leaders;
  for (const auto& each : nodes.ranks) leaders.push_back(each.front());
  disseminate(build, leaders);
  if (ranks.size() > 1) build.signal();
}

}  // namespace distdl::comm
