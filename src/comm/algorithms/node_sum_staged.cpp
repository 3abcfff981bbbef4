// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/node_sum.hpp>

namespace distdl::comm {
namespace {

/// Partial sums of the rank that brings the most.
std::size_t most_parts(const Problem& problem) {
  std::size_t most = 1;
  for (int parts : parts_of(problem)) most = std::max(most, static_cast<std::size_t>(parts));
  return most;
}

/// Everything goes through the shared areas, in chunks. Each turn begins when all neighbours have ended the one before,
/// and what is put there in one turn is taken in the next.
class StagedNodeSum : public NodeSum {
 public:
  StagedNodeSum(ScheduleBuilder& build, const Nodes& nodes)
      : NodeSum(build, nodes),
        parts_(most_parts(build.problem())),
        lanes_each_((lanes().size() + ranks().size() - 1) / ranks().size()),
        operand_chunk_(chunk(parts_ * lanes().size())),
        result_chunk_(chunk(lanes_each_)) {
    if (alone()) return;
    build.reserve_shared(kSharedHalves * parts_ * lanes().size() * operand_chunk_);
    results_ = build.reserve_shared(kSharedHalves * lanes_each_ * result_chunk_);
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
    const std::size_t chunks = wants_all(group()) && !alone() ? most_chunks(t, result_chunk_, true) : 0;
    for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
      begin_turn();
      for (std::size_t lane : carried())
        if (const Chunk mine = chunk_of(lane, t, i, result_chunk_); is_passed_on(lane) && mine.count > 0) {
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
    return kSharedBytes / 2 / build_.problem().element / kSharedHalves / rooms / line * line;
  }

  /// Does another rank of the node want the result of the lane?
  bool is_passed_on(std::size_t lane) const {
    return build_.problem().collective == Collective::all_reduce ||
           lanes()[lane].carriers[group()] != build_.problem().root;
  }

  std::size_t most_chunks(std::size_t t, std::size_t length, bool only_passed_on = false) const {
    std::size_t most = 0;
    for (std::size_t lane = 0; lane < lanes().size(); ++lane) {
      if (only_passed_on && !is_passed_on(lane)) continue;
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
    const std::size_t room = (turn % kSharedHalves * parts_ + part) * lanes().size() + lane;
    return ScheduleBuilder::shared_of(rank, {room * operand_chunk_, count});
  }

  Block result_room(int rank, std::size_t lane, std::size_t turn, std::size_t count) const {
    const std::size_t room = turn % kSharedHalves * lanes_each_ + lane / ranks().size();
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

  std::size_t parts_, lanes_each_;
  std::size_t operand_chunk_, result_chunk_;  ///< elements
  std::size_t results_ = 0;                   ///< in the shared area
  std::size_t turn_ = 0;
  std::uint32_t stage_ = 0;
};

}  // namespace

void staged_node_sum(ScheduleBuilder& build) {
  StagedNodeSum(build, Nodes(build.problem())).run();
}

}  // namespace distdl::comm
