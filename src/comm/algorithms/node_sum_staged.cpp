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

/// Everything goes through the shared areas, in chunks. Each turn begins when all ranks of the node have ended the one
/// before, and what is put there in one turn is taken in the next.
class StagedNodeSum : public NodeSum {
 public:
  StagedNodeSum(ScheduleBuilder& build, const Nodes& nodes)
      : NodeSum(build, nodes),
        parts_(most_parts(build.problem())),
        partitions_each_((partitions().size() + ranks().size() - 1) / ranks().size()),
        operand_chunk_(chunk(parts_ * partitions().size())),
        result_chunk_(chunk(partitions_each_)) {
    if (alone()) return;
    build.reserve_shared(kSharedHalves * parts_ * partitions().size() * operand_chunk_);
    results_ = build.reserve_shared(kSharedHalves * partitions_each_ * result_chunk_);
  }

 protected:
  void prepare(std::size_t t) override {
    const std::size_t chunks = most_chunks(t, operand_chunk_);
    for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
      begin_turn();
      for (std::size_t partition = 0; partition < partitions().size() && i < chunks; ++partition)
        offer_operands(partition, t, i);
      for (std::size_t partition : carried())
        if (i > 0) add_operands(partition, t, i - 1);
      end_turn();
    }
  }

  void finish(std::size_t t) override {
    const std::size_t chunks = wants_all(group()) && !alone() ? most_chunks(t, result_chunk_, true) : 0;
    for (std::size_t i = 0; i <= chunks && chunks > 0; ++i) {
      begin_turn();
      for (std::size_t partition : carried())
        if (const Chunk mine = chunk_of(partition, t, i, result_chunk_); is_passed_on(partition) && mine.count > 0) {
          Block from = place(partition, mine.owner, t);
          from.first += mine.first;
          from.count = mine.count;
          build_.copy(from, result_room(build_.rank(), partition, turn_, mine.count));
        }
      for (std::size_t partition = 0; partition < partitions().size() && i > 0 && has_output(); ++partition)
        take_result(partition, t, i - 1);
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

  /// Does another rank of the node want the result of the partition?
  bool is_passed_on(std::size_t partition) const {
    return build_.problem().collective == Collective::all_reduce ||
           partitions()[partition].carriers[group()] != build_.problem().root;
  }

  std::size_t most_chunks(std::size_t t, std::size_t length, bool only_passed_on = false) const {
    std::size_t most = 0;
    for (std::size_t partition = 0; partition < partitions().size(); ++partition) {
      if (only_passed_on && !is_passed_on(partition)) continue;
      std::size_t chunks = 0;
      for (int owner : owners(partition)) chunks += segments_in(owned(partition, owner, t).count, length);
      most = std::max(most, chunks);
    }
    return most;
  }

  Chunk chunk_of(std::size_t partition, std::size_t t, std::size_t index, std::size_t length) const {
    for (int owner : owners(partition)) {
      const Piece whole = owned(partition, owner, t);
      const std::size_t chunks = segments_in(whole.count, length);
      if (index < chunks) return {owner, index * length, segment_of(whole, index, length).count};
      index -= chunks;
    }
    return {};
  }

  Piece piece_of(std::size_t partition, std::size_t t, Chunk part) const {
    return {owned(partition, part.owner, t).first + part.first, part.count};
  }

  Block operand_room(int rank, std::size_t part, std::size_t partition, std::size_t turn, std::size_t count) const {
    const std::size_t room = (turn % kSharedHalves * parts_ + part) * partitions().size() + partition;
    return ScheduleBuilder::shared_of(rank, {room * operand_chunk_, count});
  }

  Block result_room(int rank, std::size_t partition, std::size_t turn, std::size_t count) const {
    const std::size_t room = turn % kSharedHalves * partitions_each_ + partition / ranks().size();
    return ScheduleBuilder::shared_of(rank, {results_ + room * result_chunk_, count});
  }

  void offer_operands(std::size_t partition, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(partition, t, i, operand_chunk_);
    if (part.count == 0 || partitions()[partition].carriers[group()] == build_.rank()) return;
    for (std::size_t k : own_sums())
      for (const Term& term : sums()[k].terms)
        if (term.rank == build_.rank())
          build_.copy(build_.input(piece_of(partition, t, part), term.part),
                      operand_room(build_.rank(), term.part, partition, turn_, part.count));
  }

  void add_operands(std::size_t partition, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(partition, t, i, operand_chunk_);
    for (std::size_t k : own_sums()) {
      if (part.count == 0 || is_operand(k)) continue;
      std::vector<Block> blocks;
      for (const Term& term : sums()[k].terms)
        blocks.push_back(term.rank == build_.rank()
                             ? build_.input(piece_of(partition, t, part), term.part)
                             : operand_room(term.rank, term.part, partition, turn_ + 1, part.count));
      Block target = prepared(partition, k, part.owner, t);
      target.first += part.first;
      target.count = part.count;
      build_.reduce(operands(blocks, reductions_within(sums()[k])), {&target, 1}, false);
    }
  }

  void take_result(std::size_t partition, std::size_t t, std::size_t i) {
    const Chunk part = chunk_of(partition, t, i, result_chunk_);
    const int carrier = partitions()[partition].carriers[group()];
    if (part.count == 0 || carrier == build_.rank()) return;
    build_.copy(result_room(carrier, partition, turn_ + 1, part.count), build_.output(piece_of(partition, t, part)));
  }

  void begin_turn() {
    if (!alone() && stage_) build_.await_all(stage_);
  }
  void end_turn() {
    ++turn_;
    if (!alone()) stage_ = build_.signal();
  }

  std::size_t parts_, partitions_each_;
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
