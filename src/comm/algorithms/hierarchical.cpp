// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/dissemination.hpp>
#include <distdl/comm/algorithms/hierarchical.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>
#include <distdl/comm/algorithms/tree_broadcast.hpp>

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
  std::size_t half_ = 0;  ///< elements in a half of the shared area; 0: straight from the leader's memory
  std::uint32_t chunk_ = 0;
};

/// Is there room for a chunk of each partition and partial sum in the shared area?
bool fits_sum(const Problem& problem) {
  std::size_t parts = 1;
  for (int each : parts_of(problem)) parts = std::max<std::size_t>(parts, each);
  return kSharedBytes / 2 / kSharedHalves / 64 >= parts * Nodes(problem).widest() && 64 % problem.element == 0;
}

void sum(ScheduleBuilder& build) {
  if (build.choice().staged)
    staged_node_sum(build);
  else
    direct_node_sum(build);
}

void node_broadcast(ScheduleBuilder& build) {
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

void barrier(ScheduleBuilder& build) {
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

/// A node adds its own operands before they are rounded to 16 bits, but others get its rounded sum. The one order of
/// additions has the same roundings on all nodes; in another one the ranks' results would differ.
bool rounds_alike(const Problem& problem, const Choice& choice) {
  return choice.order == Order::deterministic || problem.element != 2;
}

Generator generator(const Problem& problem, const Choice& choice) {
  switch (problem.collective) {
    case Collective::barrier:
      return barrier;
    case Collective::broadcast:
      return node_broadcast;
    case Collective::reduce:
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return fits_sum(problem) && rounds_alike(problem, choice) ? sum : nullptr;
    case Collective::all_gather:
    case Collective::gather:
    case Collective::scatter:
      return node_move;
    case Collective::all_to_all:
      return problem.count > 0 && fits_node_all_to_all(problem) ? node_all_to_all : nullptr;
  }
  return nullptr;
}

/// Within the node to and from slices, one per local rank; these go between the nodes side by side.
double predicted_seconds(const CostModel& model) {
  const int local = model.at.widest(), nodes = model.at.nodes();
  const double within = local > 1 ? model.within_node(local, model.total, model.staged) : 0;
  int hops = 0;
  while ((1 << hops) < nodes) ++hops;
  if (model.collective == Collective::barrier) return 2 * model.costs.signal + hops * model.hop(0, 1);
  const double latency = model.costs.between.overhead * (nodes - 1) + model.costs.between.latency;
  // All slices of the node together.
  const double share = model.total / nodes * (nodes - 1) / model.costs.between.bandwidth;
  const double adding = model.work(3 * model.total / local, 2 * model.total / local, model.costs.reduce);
  switch (model.collective) {
    case Collective::all_reduce:
      return within + model.overlapped(latency + share, adding, model.total / local / nodes) + latency + share;
    case Collective::reduce:
    case Collective::reduce_scatter:
      return within + model.overlapped(latency + share, adding, model.total / local / nodes);
    case Collective::broadcast:
      return within + hops * (model.costs.between.latency + model.total / model.costs.between.bandwidth);
    case Collective::all_to_all:
      return within + model.copy(model.total) + latency + share * local;
    case Collective::gather:
    case Collective::scatter:
      return model.overlapped(latency + share, within + model.copy(model.total / nodes), model.total / nodes);
    default:
      return model.overlapped(latency + share, within, model.slice);
  }
}

}  // namespace

/// Within each node, then slices between the nodes, then within each node.
extern const Algorithm kHierarchical{
    .name = "hierarchical",
    .shared_use = SharedUse::operands_unless_staged,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
