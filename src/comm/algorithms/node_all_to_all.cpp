// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/hierarchical.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/node_exchange.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kPackedBytes = std::size_t{4}
                                     << 20;  ///< size of a rank's input beyond which packing is not worth it

/// Packs a rank's data for each node, sends them to one rank there, and distributes received data among the ranks of
/// its own node. All data are packed first, because in place the results of others overwrite them.
class NodeAllToAll {
 public:
  explicit NodeAllToAll(ScheduleBuilder& build)
      : build_(build),
        nodes_(build.problem()),
        node_(nodes_.of[build.rank()]),
        exchange_(build),
        packed_(build.reserve_scratch(build.size() * build.problem().count)) {
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
        build_.copy(sent_block(build_, build_.rank(), q), build_.scratch({next, build_.problem().count}));
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
        all.push_back(
            {{carrier(from), Space::scratch, 0, next, build_.problem().count}, {received_block(build_, from, to)}});
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

bool fits_node_all_to_all(const Problem& problem) {
  return problem.count * problem.size * problem.element <= kPackedBytes;
}

void node_all_to_all(ScheduleBuilder& build) {
  NodeAllToAll(build).run();
}

}  // namespace distdl::comm
