// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/node_exchange.hpp>
#include <distdl/comm/algorithms/node_terms.hpp>

namespace distdl::comm {

extern const Algorithm kSharedStaged;  // of shared_staged.cpp

namespace {

constexpr std::size_t kSwapBytes = std::size_t{16} * 1024;  ///< on their way between two ranks' memories, in a cache

/// Where the owner of a slice writes its sum.
std::vector<Block> result_blocks(const ScheduleBuilder& build, Piece slice) {
  if (build.problem().collective == Collective::reduce_scatter) return {build.output(slice)};
  std::vector<Block> blocks;
  for (int q : build.node_ranks())
    if (has_result(build.problem(), q)) blocks.push_back(build.output_of(q, slice));
  return blocks;
}

void sum(ScheduleBuilder& build) {
  build.open_memory();
  const Piece slice = build.slice(build.rank());
  const std::vector<Term> terms = terms_of(build.problem());
  std::vector<Block> blocks;
  blocks.reserve(terms.size());
  for (const Term& term : terms) blocks.push_back(build.input_of(term.rank, slice, term.part));
  build.reduce(operands(blocks, reductions_of(build, terms)), result_blocks(build, slice), true);
  build.await_all(build.signal());
}

void move(ScheduleBuilder& build) {
  build.open_memory();
  const Piece held = held_by(build, build.rank()), wanted = wanted_by(build, build.rank());
  for (int q : build.node_ranks()) {
    const Piece piece = overlap_of(held_by(build, q), wanted);
    build.copy(build.input_of(q, piece), build.output(piece));
  }
  const std::uint32_t read = build.signal();
  for (int q : build.node_ranks())
    if (q != build.rank() && overlap_of(held, wanted_by(build, q)).count > 0) build.await(q, read);
}

// Each rank reads its blocks: the memory that it writes stays in its own caches.
void disjoint_all_to_all(ScheduleBuilder& build) {
  build.open_memory();
  const int self = build.rank();
  for (int i = 0; i < build.size(); ++i) {
    const int from = (self + i) % build.size();
    build.copy(sent_block(build, from, self), received_block(build, from, self));
  }
  build.await_all(build.signal());
}

// One rank of each pair swaps their blocks, because each block may be in the target of the other one. Two ranks that
// are opposite to each other share that work.
void all_to_all(ScheduleBuilder& build) {
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
      build.copy(part(sent_block(build, other, self)), build.scratch({room, piece.count}));
      build.copy(part(sent_block(build, self, other)), part(received_block(build, self, other)));
      build.copy(build.scratch({room, piece.count}), part(received_block(build, other, self)));
    }
  }
  build.copy(sent_block(build, self, self), received_block(build, self, self));
  build.await_all(build.signal());
}

Generator generator(const Problem& problem, const Choice& choice) {
  if (!is_on_one_node(problem) || problem.collective == Collective::barrier) return nullptr;
  if (problem.collective == Collective::all_to_all && problem.count == 0) return nullptr;
  if (problem.collective == Collective::all_to_all) return choice.disjoint ? disjoint_all_to_all : all_to_all;
  return is_sum(problem.collective) ? sum : move;
}

double predicted_seconds(const CostModel& model) {
  return model.within_node(model.at.widest(), model.total, false);
}

}  // namespace

/// Within one node: each reduces its slice straight from all inputs into all outputs.
extern constexpr Algorithm kSharedDirect{
    .name = "shared_direct",
    .shared_use = SharedUse::operands,
    .tries_segments = false,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
    .apart = &kSharedStaged,
};

}  // namespace distdl::comm
