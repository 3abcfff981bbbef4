// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/comm/algorithms/hierarchical.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/node_exchange.hpp>
#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

/// All-gather, gather, scatter: each piece goes once from node to node, and within the nodes through shared memory. In
/// an all-gather each rank sends its slice to one rank of every other node, so that all ranks of a node share the work.
/// The others have one rank at one end of all messages: it talks to one rank of each node, in one message if the ranks
/// of that node follow each other. All this goes segment by segment, several of which are under way at once.
class NodeMove {
 public:
  explicit NodeMove(ScheduleBuilder& build)
      : build_(build),
        nodes_(build.problem()),
        node_(nodes_.of[build.rank()]),
        exchange_(build),
        length_(build.segment(std::max<std::size_t>(1, build.whole().count))) {
    const int count = static_cast<int>(nodes_.ranks.size());
    for (int i = 1; i < count; ++i) {
      add_transfers(node_, (node_ + i) % count);
      add_transfers((node_ - i + count) % count, node_);
    }
    for (Transfer& transfer : transfers_) {
      segments_ = std::max(segments_, segments_in(transfer.piece.count, length_));
      if (needs_room(transfer))
        transfer.room = build.reserve_scratch(kSlots * std::min(length_, lines(transfer.piece.count)));
    }
    for (int& group : groups_) group = build.new_group();
  }

  void run() {
    for (std::size_t t = 0; t < segments_ + kAhead; ++t) {
      if (t < segments_) {
        collect(t);
        post(t);
      }
      if (t == 0) hand_over_within();
      if (t < kAhead) continue;
      build_.wait(groups_[(t - kAhead) % kSlots]);
      hand_over(t - kAhead);
    }
    exchange_.end();
  }

 private:
  static constexpr std::size_t kAhead = 2;  ///< segments under way while one is handed over
  static constexpr std::size_t kSlots = kAhead + 1;

  /// Data that go from one node to another, by the ranks that send and receive them.
  struct Transfer {
    int from = 0, to = 0;
    Piece piece;
    std::size_t room = 0;  ///< its place in the scratch of this rank, if it needs one
  };

  std::size_t lines(std::size_t count) const { return build_.line() * segments_in(count, build_.line()); }

  void add_transfers(int from, int to) {
    const std::vector<int>&givers = nodes_.ranks[from], &takers = nodes_.ranks[to];
    const int root = build_.problem().root;
    switch (build_.problem().collective) {
      case Collective::all_gather:
        for (std::size_t i = 0; i < givers.size(); ++i)
          transfers_.push_back({givers[i], takers[i % takers.size()], build_.slice(givers[i])});
        return;
      case Collective::gather:
        if (to == nodes_.of[root]) add_runs(givers, givers.front(), root);
        return;
      default:
        if (from == nodes_.of[root]) add_runs(takers, root, takers.front());
    }
  }

  /// The slices of ranks that follow each other lie side by side.
  void add_runs(const std::vector<int>& ranks, int from, int to) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Piece slice = build_.slice(ranks[i]);
      if (i > 0 && ranks[i] == ranks[i - 1] + 1)
        transfers_.back().piece.count += slice.count;
      else
        transfers_.push_back({from, to, slice});
    }
  }

  static bool covers(Piece whole, Piece part) { return overlap_of(whole, part).count == part.count; }
  bool has_all(const Transfer& transfer) const { return covers(held_by(build_, transfer.from), transfer.piece); }
  bool wants_all(const Transfer& transfer) const { return covers(wanted_by(build_, transfer.to), transfer.piece); }
  bool needs_room(const Transfer& transfer) const {
    return (transfer.from == build_.rank() && !has_all(transfer)) ||
           (transfer.to == build_.rank() && !wants_all(transfer));
  }

  /// Does this rank hand it over itself, or with the others?
  bool takes_part(int carrier) const { return carrier == build_.rank() || !exchange_.is_direct(); }
  bool is_here(int rank) const { return nodes_.of[rank] == node_; }

  Block room(const Transfer& transfer, int carrier, std::size_t t) const {
    const std::size_t slot = t % kSlots * std::min(length_, lines(transfer.piece.count));
    return {carrier, Space::scratch, 0, transfer.room + slot, segment_of(transfer.piece, t, length_).count};
  }
  Block leaving(const Transfer& transfer, std::size_t t) const {
    return has_all(transfer) ? build_.input_of(transfer.from, segment_of(transfer.piece, t, length_))
                             : room(transfer, transfer.from, t);
  }
  Block arriving(const Transfer& transfer, std::size_t t) const {
    return wants_all(transfer) ? build_.output_of(transfer.to, segment_of(transfer.piece, t, length_))
                               : room(transfer, transfer.to, t);
  }

  /// From the ranks of this node to the one that sends.
  void collect(std::size_t t) {
    std::vector<Handover> all;
    for (const Transfer& transfer : transfers_) {
      if (!is_here(transfer.from) || !takes_part(transfer.from) || has_all(transfer)) continue;
      const Piece piece = segment_of(transfer.piece, t, length_);
      for (int q : build_.node_ranks()) {
        const Piece part = overlap_of(piece, held_by(build_, q));
        if (part.count > 0)
          all.push_back(
              {build_.input_of(q, part), {part_of(leaving(transfer, t), part.first - piece.first, part.count)}});
      }
    }
    exchange_.run(all);
  }

  void post(std::size_t t) {
    for (const Transfer& transfer : transfers_) {
      if (transfer.to == build_.rank()) build_.receive(transfer.from, arriving(transfer, t), groups_[t % kSlots]);
      if (transfer.from == build_.rank()) build_.send(transfer.to, leaving(transfer, t), groups_[t % kSlots]);
    }
  }

  /// From the rank that received to those of this node that want it.
  void hand_over(std::size_t t) {
    std::vector<Handover> all;
    for (const Transfer& transfer : transfers_)
      if (is_here(transfer.to) && takes_part(transfer.to))
        share(segment_of(transfer.piece, t, length_), arriving(transfer, t), all);
    exchange_.run(all);
  }

  void hand_over_within() {
    std::vector<Handover> all;
    for (int q : build_.node_ranks())
      if (takes_part(q)) share(held_by(build_, q), build_.input_of(q, held_by(build_, q)), all);
    exchange_.run(all);
  }

  /// `from` holds the piece.
  void share(Piece piece, Block from, std::vector<Handover>& all) const {
    if (piece.count == 0) return;
    Handover whole{from, {}};
    for (int q : build_.node_ranks()) {
      const Piece part = overlap_of(piece, wanted_by(build_, q));
      const Block to = build_.output_of(q, part);
      if (to == from) continue;
      if (part.count == piece.count)
        whole.to.push_back(to);
      else if (part.count > 0)
        all.push_back({part_of(from, part.first - piece.first, part.count), {to}});
    }
    all.push_back(std::move(whole));
  }

  ScheduleBuilder& build_;
  Nodes nodes_;
  int node_;
  NodeExchange exchange_;
  std::size_t length_ = 1, segments_ = 0;
  std::vector<Transfer> transfers_;  ///< messages that come here or go from here
  std::array<int, kSlots> groups_{};
};

}  // namespace

void node_move(ScheduleBuilder& build) {
  NodeMove(build).run();
}

}  // namespace distdl::comm
