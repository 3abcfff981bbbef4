// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <distdl/comm/doubling_sum.hpp>
#include <distdl/comm/pairwise_sum.hpp>
#include <distdl/comm/schedule_families.hpp>
#include <distdl/comm/tree_reduction.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kLaneBytes = 4096;  ///< a lane is worth a rank from here on
constexpr std::size_t kHalves = 2;        ///< of a shared area: one is filled while the other is emptied
constexpr int kFewNodes = 4;              ///< up to here one hop to everyone beats doubling

/// Nodes numbered 0, 1, ... in the order of their first ranks.
struct Nodes {
  std::vector<int> of;                  ///< each rank's
  std::vector<std::vector<int>> ranks;  ///< of each node, ascending

  explicit Nodes(const Problem& problem) {
    std::map<int, int> number;
    for (int r = 0; r < problem.size; ++r) {
      const auto [node, is_new] = number.try_emplace(problem.nodes[r], static_cast<int>(ranks.size()));
      if (is_new) ranks.emplace_back();
      of.push_back(node->second);
      ranks[node->second].push_back(r);
    }
  }
};

std::vector<Lane> lanes_of(const ScheduleBuilder& build, const Nodes& nodes) {
  std::size_t most = 1;
  for (const auto& ranks : nodes.ranks) most = std::max(most, ranks.size());
  most = std::clamp<std::size_t>(build.whole().count * build.problem().element / kLaneBytes, 1, most);
  std::vector<Lane> lanes;
  for (std::size_t l = 0; l < most; ++l) {
    lanes.push_back({slice_of(build.whole(), most, l, build.line()), {}});
    for (const auto& ranks : nodes.ranks) lanes.back().carriers.push_back(ranks[l % ranks.size()]);
  }
  return lanes;
}

/// The sum between nodes, in lanes; what happens within a node is left to the derived classes.
class NodeSum : public PairwiseSum {
 public:
  NodeSum(ScheduleBuilder& build, const Nodes& nodes)
      : PairwiseSum(build, nodes.of, group_sums(build.problem(), nodes.of, build.choice().order),
                    lanes_of(build, nodes)),
        ranks_(nodes.ranks[nodes.of[build.rank()]]) {
    for (std::size_t k = 0; k < sums().size(); ++k)
      if (sums()[k].group == group()) own_.push_back(k);
    prepared_ = build.reserve_scratch(kSlots * carried().size() * own_.size() * groups() * room());
  }

  void run() override {
    if (!can_double()) return PairwiseSum::run();
    prepare(0);
    for (std::size_t lane : carried()) {
      std::vector<int> members;
      std::vector<LeafRange> leaves;
      const bool fixed = build_.choice().order == Order::fixed;
      for (const GroupSum& sum : sums()) {
        leaves.push_back(fixed ? sum.leaves : LeafRange{static_cast<int>(leaves.size()), 1});
        members.push_back(lanes()[lane].carriers[sum.group]);
      }
      DoublingSum sum(build_, members, leaves, fixed ? leaves_of(build_.problem()) : groups(),
                      lanes()[lane].piece.count);
      sum.run(value(lane, own_.front(), group(), 0), targets(lane, 0));
    }
    finish(0);
  }

 protected:
  bool alone() const { return ranks_.size() == 1; }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<std::size_t>& own_sums() const { return own_; }

  /// Short lanes and lots of nodes, each with one sum.
  bool can_double() const {
    if (build_.problem().collective != Collective::all_reduce || groups() <= kFewNodes) return false;
    for (std::size_t lane = 0; lane < lanes().size(); ++lane)
      if (!is_short(lane)) return false;
    std::vector<int> sums_of(groups(), 0);
    for (const GroupSum& sum : sums()) ++sums_of[sum.group];
    return std::all_of(sums_of.begin(), sums_of.end(), [](int each) { return each == 1; });
  }

  /// A sum that is nothing but an own operand needs no preparation.
  bool is_operand(std::size_t k) const {
    return sums()[k].terms.size() == 1 && sums()[k].terms.front().rank == build_.rank();
  }
  Block prepared(std::size_t lane, std::size_t k, int owner, std::size_t t) const {
    const std::size_t number = std::find(own_.begin(), own_.end(), k) - own_.begin();
    const std::size_t slot = (t % kSlots * carried().size() + place_among_carried(lane)) * own_.size() + number;
    const Piece piece = owned(lane, owner, t);
    return build_.scratch({prepared_ + (slot * groups() + (is_short(lane) ? 0 : owner)) * room(), piece.count});
  }
  Block value(std::size_t lane, std::size_t k, int owner, std::size_t t) const override {
    return is_operand(k) ? build_.input(owned(lane, owner, t), sums()[k].terms.front().part)
                         : prepared(lane, k, owner, t);
  }

  /// Those whose pieces of a lane differ: all of them, or of a short lane one that wants it.
  std::vector<int> owners(std::size_t lane) const {
    std::vector<int> all;
    for (int g = 0; g < groups() && !(is_short(lane) && !all.empty()); ++g)
      if (owned(lane, g, 0).count > 0) all.push_back(g);
    return all;
  }

  std::vector<std::uint16_t> merges_within(const GroupSum& sum) const {
    std::vector<LeafRange> leaves;
    for (const Term& term : sum.terms) leaves.push_back(term.leaves);
    return merges_of(leaves, leaves_of(build_.problem()), build_.choice().order);
  }

 private:
  std::vector<int> ranks_;
  std::vector<std::size_t> own_;  ///< sums of this node
  std::size_t prepared_ = 0;      ///< in scratch
};

/// Operands and results of the neighbours lie in shared memory: the carrier of a lane reads and writes them.
class DirectNodeSum : public NodeSum {
 public:
  using NodeSum::NodeSum;

  void run() override {
    if (!alone()) build_.open_memory();
    NodeSum::run();
    if (!alone()) build_.await_all(build_.signal());
  }

 protected:
  void prepare(std::size_t t) override {
    for (std::size_t lane : carried())
      for (int owner : owners(lane)) {
        const bool only_own = owner == group() && !can_double() && !(is_short(lane) && groups() > 1);
        for (std::size_t k : own_sums()) {
          if (only_own || is_operand(k)) continue;  // an own piece is added straight from the operands
          std::vector<Block> blocks;
          for (const Term& term : sums()[k].terms)
            blocks.push_back(build_.input_of(term.rank, owned(lane, owner, t), term.part));
          const Block target = prepared(lane, k, owner, t);
          build_.combine(operands(blocks, merges_within(sums()[k])), {&target, 1}, false);
        }
      }
  }

  void add_own(std::size_t lane, std::size_t k, std::size_t t, std::vector<Block>& blocks,
               std::vector<LeafRange>& leaves) const override {
    for (const Term& term : sums()[k].terms) {
      blocks.push_back(build_.input_of(term.rank, owned(lane, group(), t), term.part));
      leaves.push_back(term.leaves);
    }
  }

  std::vector<Block> targets(std::size_t lane, std::size_t t) const override {
    std::vector<Block> all{place(lane, group(), t)};
    if (wants_all(group())) add_neighbours(owned(lane, group(), t), all);
    return all;
  }

  void finish(std::size_t t) override {
    for (std::size_t lane : carried())
      for (int owner = 0; owner < groups() && wants_all(group()) && !is_short(lane); ++owner) {
        if (owner == group()) continue;
        std::vector<Block> others;
        add_neighbours(owned(lane, owner, t), others);
        const Operand source{place(lane, owner, t), 0};
        build_.combine({&source, 1}, others, false);
      }
  }

 private:
  void add_neighbours(Piece piece, std::vector<Block>& blocks) const {
    for (int q : ranks())
      if (q != build_.rank() && (build_.problem().collective == Collective::all_reduce || q == build_.problem().root))
        blocks.push_back(build_.output_of(q, piece));
  }
};

/// Everything goes through the shared areas, in chunks. Each turn begins when all neighbours have ended the one before,
/// and what is put there in one turn is taken in the next.
class StagedNodeSum : public NodeSum {
 public:
  StagedNodeSum(ScheduleBuilder& build, const Nodes& nodes) : NodeSum(build, nodes) {
    for (int parts : parts_of(build.problem())) parts_ = std::max<std::size_t>(parts_, parts);
    lanes_each_ = (lanes().size() + ranks().size() - 1) / ranks().size();
    operand_chunk_ = chunk(parts_ * lanes().size());
    result_chunk_ = chunk(lanes_each_);
    if (alone()) return;
    build.reserve_shared(kHalves * parts_ * lanes().size() * operand_chunk_);
    results_ = build.reserve_shared(kHalves * lanes_each_ * result_chunk_);
  }

 protected:
  void prepare(std::size_t t) override {
    const std::size_t chunks = most_chunks(t, operand_chunk_);
    for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
      begin_turn();
      for (std::size_t lane = 0; lane < lanes().size() && i < chunks; ++lane) offer_operands(lane, t, i);
      for (std::size_t lane : carried())
        if (i > 0) add_operands(lane, t, i - 1);
      end_turn();
    }
  }

  void finish(std::size_t t) override {
    const std::size_t chunks = wants_all(group()) && !alone() ? most_chunks(t, result_chunk_) : 0;
    for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
      begin_turn();
      for (std::size_t lane : carried())
        if (const Chunk mine = chunk_of(lane, t, i, result_chunk_); i < chunks && mine.count > 0) {
          Block from = place(lane, mine.owner, t);
          from.first += mine.first;
          from.count = mine.count;
          build_.copy(from, result_room(build_.rank(), lane, turn_, mine.count));
        }
      for (std::size_t lane = 0; lane < lanes().size() && i > 0 && has_output(); ++lane) take_result(lane, t, i - 1);
      end_turn();
    }
  }

 private:
  /// Elements [first, first + count) of what `owner` owns of a segment.
  struct Chunk {
    int owner = 0;
    std::size_t first = 0, count = 0;
  };

  std::size_t chunk(std::size_t rooms) const {
    const std::size_t line = build_.line();
    return kSharedBytes / 2 / build_.problem().element / kHalves / rooms / line * line;
  }

  std::size_t most_chunks(std::size_t t, std::size_t length) const {
    std::size_t most = 0;
    for (std::size_t lane = 0; lane < lanes().size(); ++lane) {
      std::size_t chunks = 0;
      for (int owner : owners(lane)) chunks += segments_in(owned(lane, owner, t).count, length);
      most = std::max(most, chunks);
    }
    return most;
  }

  Chunk chunk_of(std::size_t lane, std::size_t t, std::size_t index, std::size_t length) const {
    for (int owner : owners(lane)) {
      const Piece whole = owned(lane, owner, t);
      const std::size_t chunks = segments_in(whole.count, length);
      if (index < chunks) return {owner, index * length, segment_of(whole, index, length).count};
      index -= chunks;
    }
    return {};
  }

  Piece piece_of(std::size_t lane, std::size_t t, Chunk part) const {
    return {owned(lane, part.owner, t).first + part.first, part.count};
  }

  Block operand_room(int rank, std::size_t part, std::size_t lane, std::size_t turn, std::size_t count) const {
    const std::size_t room = (turn % kHalves * parts_ + part) * lanes().size() + lane;
    return ScheduleBuilder::shared_of(rank, {room * operand_chunk_, count});
  }

  Block result_room(int rank, std::size_t lane, std::size_t turn, std::size_t count) const {
    const std::size_t room = turn % kHalves * lanes_each_ + lane / ranks().size();
    return ScheduleBuilder::shared_of(rank, {results_ + room * result_chunk_, count});
  }

  void offer_operands(std::size_t lane, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(lane, t, i, operand_chunk_);
    if (part.count == 0 || lanes()[lane].carriers[group()] == build_.rank()) return;
    for (std::size_t k : own_sums())
      for (const Term& term : sums()[k].terms)
        if (term.rank == build_.rank())
          build_.copy(build_.input(piece_of(lane, t, part), term.part),
                      operand_room(build_.rank(), term.part, lane, turn_, part.count));
  }

  void add_operands(std::size_t lane, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(lane, t, i, operand_chunk_);
    for (std::size_t k : own_sums()) {
      if (part.count == 0 || is_operand(k)) continue;
      std::vector<Block> blocks;
      for (const Term& term : sums()[k].terms)
        blocks.push_back(term.rank == build_.rank() ? build_.input(piece_of(lane, t, part), term.part)
                                                    : operand_room(term.rank, term.part, lane, turn_ + 1, part.count));
      Block target = prepared(lane, k, part.owner, t);
      target.first += part.first;
      target.count = part.count;
      build_.combine(operands(blocks, merges_within(sums()[k])), {&target, 1}, false);
    }
  }

  void take_result(std::size_t lane, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(lane, t, i, result_chunk_);
    const int carrier = lanes()[lane].carriers[group()];
    if (part.count == 0 || carrier == build_.rank()) return;
    build_.copy(result_room(carrier, lane, turn_ + 1, part.count), build_.output(piece_of(lane, t, part)));
  }

  void begin_turn() {
    if (!alone() && stage_) build_.await_all(stage_);
  }
  void end_turn() {
    ++turn_;
    if (!alone()) stage_ = build_.signal();
  }

  std::size_t parts_ = 1, lanes_each_ = 1;
  std::size_t operand_chunk_ = 0, result_chunk_ = 0;  ///< elements
  std::size_t results_ = 0;                           ///< in the shared area
  std::size_t turn_ = 0;
  std::uint32_t stage_ = 0;
};

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
    half_ = kSharedBytes / build.problem().element / kHalves / build.line() * build.line();
    build.reserve_shared(kHalves * half_);
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
    if (half_) return ScheduleBuilder::shared_of(leader_, {chunk_ % kHalves * half_, piece.count});
    return leader_ == build_.problem().root ? build_.input_of(leader_, piece) : build_.output_of(leader_, piece);
  }

  void pass_chunk(Piece piece) {
    if (build_.rank() != leader_) {
      build_.await(leader_, chunk_ + 2);
      build_.copy(at_leader(piece), build_.output(piece));
      if (half_) build_.signal();
    } else {
      for (int q : others_)
        if (half_ && chunk_ >= kHalves) build_.await(q, chunk_);  // has taken what lay there, two chunks ago
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
  std::size_t parts = 1, ranks = 1;
  for (int each : parts_of(problem)) parts = std::max<std::size_t>(parts, each);
  for (const auto& node : Nodes(problem).ranks) ranks = std::max(ranks, node.size());
  return kSharedBytes / 2 / kHalves / 64 >= parts * ranks && 64 % problem.element == 0;
}

void hierarchical_sum(ScheduleBuilder& build) {
  const Nodes nodes(build.problem());
  if (build.choice().staged)
    StagedNodeSum(build, nodes).run();
  else
    DirectNodeSum(build, nodes).run();
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
