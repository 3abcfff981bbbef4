// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/comm/algorithms/families.hpp>
#include <distdl/comm/algorithms/node_exchange.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

constexpr int kPairWindow = 8;                         ///< transfers in each direction under way at a time
constexpr std::size_t kSwapBytes = 16 * 1024;          ///< on their way between two ranks' memories, in a cache
constexpr std::size_t kPackedBytes = 4 * 1024 * 1024;  ///< of a rank's input, beyond which packing is not worth it

/// Where the ranks' inputs and outputs hold what one has for another; where all counts are equal (Problem::count).
Block sent(const ScheduleBuilder& build, int from, int to) {
  return {from, Space::input, 0, to * build.problem().count, build.problem().count};
}
Block received(const ScheduleBuilder& build, int from, int to) {
  return {to, Space::output, 0, from * build.problem().count, build.problem().count};
}

/// Packs what it has for each node, sends that to one rank there, and hands what comes to the ranks of its own node.
/// Everything is packed first, since the results may overwrite the operands.
class NodeAllToAll {
 public:
  explicit NodeAllToAll(ScheduleBuilder& build)
      : build_(build), nodes_(build.problem()), node_(nodes_.of[build.rank()]), exchange_(build) {
    packed_ = build.reserve_scratch(build.size() * build.problem().count);
    const std::size_t each = build.node_ranks().size() * build.problem().count;
    for (int q = 0; q < build.size(); ++q) {
      arrivals_.push_back(0);
      if (nodes_.of[q] != node_ && carrier(q) == build.rank()) arrivals_.back() = build.reserve_scratch(each);
    }
  }

  void run() {
    std::vector<std::size_t> begins;
    std::size_t next = packed_;
    for (const auto& ranks : nodes_.ranks) {
      begins.push_back(next);
      for (int q : ranks) {
        build_.copy(sent(build_, build_.rank(), q), build_.scratch({next, build_.problem().count}));
        next += build_.problem().count;
      }
    }
    transfer(begins);
    exchange_.meet();
    exchange_.run(handovers(begins[node_]));
    exchange_.end();
  }

 private:
  std::size_t place_in_node(int rank) const {
    const std::vector<int>& ranks = nodes_.ranks[nodes_.of[rank]];
    return std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin();
  }
  /// Who of node `node` has to do with a rank of another node.
  int carrier(int rank, int node) const {
    const std::vector<int>& ranks = nodes_.ranks[node];
    return ranks[place_in_node(rank) % ranks.size()];
  }
  int carrier(int rank) const { return nodes_.of[rank] == node_ ? rank : carrier(rank, node_); }

  void transfer(const std::vector<std::size_t>& begins) {
    const int group = build_.new_group(), count = static_cast<int>(nodes_.ranks.size());
    const std::size_t each = build_.problem().count;
    for (int i = 1; i < count; ++i) {
      const int to = (node_ + i) % count, from = (node_ - i + count) % count;
      for (int q : nodes_.ranks[from])
        if (carrier(q) == build_.rank())
          build_.receive(q, build_.scratch({arrivals_[q], build_.node_ranks().size() * each}), group);
      build_.send(carrier(build_.rank(), to), build_.scratch({begins[to], nodes_.ranks[to].size() * each}), group);
    }
    build_.wait(group);
  }

  /// `own`: where what it has for its own node lies packed.
  std::vector<Handover> handovers(std::size_t own) const {
    std::vector<Handover> all;
    for (int from = 0; from < build_.size(); ++from) {
      std::size_t next = nodes_.of[from] == node_ ? own : arrivals_[from];
      for (int to : build_.node_ranks()) {
        all.push_back({{carrier(from), Space::scratch, 0, next, build_.problem().count}, {received(build_, from, to)}});
        next += build_.problem().count;
      }
    }
    return all;
  }

  ScheduleBuilder& build_;
  Nodes nodes_;
  int node_;
  NodeExchange exchange_;
  std::size_t packed_ = 0;
  std::vector<std::size_t> arrivals_;  ///< in scratch, of each rank that sends to this one
};

}  // namespace

void shared_short_all_to_all(ScheduleBuilder& build) {
  const int self = build.rank();
  const std::size_t each = build.problem().count;
  build.reserve_shared(build.size() * each);
  build.copy({self, Space::input, 0, 0, build.size() * each}, build.shared({0, build.size() * each}));
  const std::uint32_t copied = build.signal();
  for (int i = 0; i < build.size(); ++i) {
    const int q = (self + i) % build.size();
    if (q != self) build.await(q, copied);
    build.copy(ScheduleBuilder::shared_of(q, {self * each, each}), received(build, q, self));
  }
}

// Of each pair of ranks one swaps their blocks, as both may lie where the other's goes to. Two that are opposite to
// each other share that.
void shared_direct_all_to_all(ScheduleBuilder& build) {
  build.open_memory();
  const int self = build.rank(), size = build.size();
  const std::size_t length =
      std::max<std::size_t>(1, kSwapBytes / build.problem().element / build.line()) * build.line();
  const std::size_t room = build.reserve_scratch(std::min(length, build.problem().count));
  const Piece whole{0, build.problem().count};
  for (int i = 1; 2 * i <= size; ++i) {
    const int other = (self + i) % size;
    const Piece share = 2 * i < size ? whole : slice_of(whole, 2, self < other ? 0 : 1, build.line());
    for (std::size_t t = 0; t < segments_in(share.count, length); ++t) {
      const Piece piece = segment_of(share, t, length);
      const auto part = [&](Block block) { return part_of(block, piece.first, piece.count); };
      build.copy(part(sent(build, other, self)), build.scratch({room, piece.count}));
      build.copy(part(sent(build, self, other)), part(received(build, self, other)));
      build.copy(build.scratch({room, piece.count}), part(received(build, other, self)));
    }
  }
  build.copy(sent(build, self, self), received(build, self, self));
  build.await_all(build.signal());
}

// In the rounds of pairwise_all_to_all(), so that in place a block arrives where one went in the same turn.
void shared_staged_all_to_all(ScheduleBuilder& build) {
  std::vector<Handover> all;
  for (int round = 0; round < build.size(); ++round)
    for (int from = 0; from < build.size(); ++from) {
      const int to = (round + build.size() - from) % build.size();
      all.push_back({sent(build, from, to), {received(build, from, to)}});
    }
  NodeExchange(build, NodeExchange::Way::staged).run(all);
}

bool fits_hierarchical_all_to_all(const Problem& problem) {
  return problem.count * problem.size * problem.element <= kPackedBytes;
}

void hierarchical_all_to_all(ScheduleBuilder& build) {
  NodeAllToAll(build).run();
}

// In round k ranks a and b meet with a + b = k (modulo size): everyone meets everyone once, and sends what it takes the
// place of. In place a block may therefore arrive only beside; where counts differ there is no in place.
void pairwise_all_to_all(ScheduleBuilder& build) {
  const Problem& problem = build.problem();
  const int self = build.rank(), size = build.size();
  const bool beside = problem.send_counts == problem.receive_counts;
  std::vector<std::size_t> sends{0}, receives{0};
  for (std::size_t count : problem.send_counts) sends.push_back(sends.back() + count);
  for (std::size_t count : problem.receive_counts) receives.push_back(receives.back() + count);
  const auto from = [&](int q) { return Block{self, Space::input, 0, sends[q], problem.send_counts[q]}; };
  const auto into = [&](int q) { return Block{self, Space::output, 0, receives[q], problem.receive_counts[q]}; };
  const std::size_t most = *std::max_element(problem.receive_counts.begin(), problem.receive_counts.end());
  const std::size_t room = build.line() * segments_in(most, build.line());
  const std::size_t rooms = build.reserve_scratch(beside ? room * std::min(kPairWindow, size) : 0);
  std::array<int, kPairWindow> groups{};
  for (int& group : groups) group = build.new_group();
  const auto peer_in = [&](int round) { return (round + size - self) % size; };
  const auto arrival = [&](int round) {
    const int peer = peer_in(round);
    return beside ? build.scratch({rooms + round % kPairWindow * room, into(peer).count}) : into(peer);
  };
  for (int round = 0; round < size + kPairWindow; ++round) {
    if (round >= kPairWindow && round - kPairWindow < size) {
      build.wait(groups[round % kPairWindow]);
      if (beside && peer_in(round - kPairWindow) != self)
        build.copy(arrival(round - kPairWindow), into(peer_in(round - kPairWindow)));
    }
    if (round >= size) continue;
    const int peer = peer_in(round), group = groups[round % kPairWindow];
    if (peer == self) {
      build.copy(from(self), into(self));
    } else {
      build.receive(peer, arrival(round), group);
      build.send(peer, from(peer), group);
    }
  }
}

}  // namespace distdl::comm
