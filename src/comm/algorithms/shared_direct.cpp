// SPDX-License-Identifier: Apache-2.0
#include <distdl/comm/algorithms/families.hpp>

namespace distdl::comm {
namespace {

bool has_result(const ScheduleBuilder& build, int rank) {
  return build.problem().collective != Collective::reduce || rank == build.problem().root;
}

/// Where the owner of a slice writes its sum.
std::vector<Block> result_blocks(const ScheduleBuilder& build, Piece slice) {
  if (build.problem().collective == Collective::reduce_scatter) return {build.output(slice)};
  std::vector<Block> blocks;
  for (int q : build.node_ranks())
    if (has_result(build, q)) blocks.push_back(build.output_of(q, slice));
  return blocks;
}

std::vector<std::uint16_t> merges_of(const ScheduleBuilder& build, const std::vector<Term>& terms) {
  std::vector<LeafRange> leaves;
  leaves.reserve(terms.size());
  for (const Term& term : terms) leaves.push_back(term.leaves);
  return merges_of(leaves, leaves_of(build.problem()), build.choice().order);
}

/// What a short sum needs of everyone: all, or only the own slice.
Piece needed(const ScheduleBuilder& build) {
  return build.problem().collective == Collective::reduce_scatter ? build.slice(build.rank()) : build.whole();
}

}  // namespace

void shared_barrier(ScheduleBuilder& build) {
  build.await_all(build.signal());
}

void shared_short_sum(ScheduleBuilder& build) {
  const std::size_t total = build.whole().count;
  const std::vector<Term> terms = terms_of(build.problem());
  const auto shared_part = [&](const Term& term, Piece piece) {
    return Piece{build.line() * segments_in(total, build.line()) * term.part + piece.first, piece.count};
  };
  const bool only_here = build.problem().collective == Collective::reduce && has_result(build, build.rank());
  for (const Term& term : terms)
    if (term.rank == build.rank() && !only_here) {
      build.reserve_shared(total);
      build.copy(build.input(build.whole(), term.part), build.shared(shared_part(term, build.whole())));
    }
  const std::uint32_t copied = build.signal();
  if (!has_result(build, build.rank())) return;
  build.await_all(copied);
  const Piece piece = needed(build);
  std::vector<Block> blocks;
  blocks.reserve(terms.size());
  for (const Term& term : terms)
    blocks.push_back(term.rank == build.rank() ? build.input(piece, term.part)
                                               : ScheduleBuilder::shared_of(term.rank, shared_part(term, piece)));
  const Block result = build.output(piece);
  build.reduce(operands(blocks, merges_of(build, terms)), {&result, 1}, true);
}

void shared_direct_sum(ScheduleBuilder& build) {
  build.open_memory();
  const Piece slice = build.slice(build.rank());
  const std::vector<Term> terms = terms_of(build.problem());
  std::vector<Block> blocks;
  blocks.reserve(terms.size());
  for (const Term& term : terms) blocks.push_back(build.input_of(term.rank, slice, term.part));
  build.reduce(operands(blocks, merges_of(build, terms)), result_blocks(build, slice), true);
  build.await_all(build.signal());
}

void shared_short_move(ScheduleBuilder& build) {
  const Piece held = held_by(build, build.rank());
  if (is_wanted_elsewhere(build, held)) {
    build.reserve_shared(held.count);
    build.copy(build.input(held), build.shared({0, held.count}));
  }
  const std::uint32_t copied = build.signal();
  const Piece wanted = wanted_by(build, build.rank());
  const Piece own = overlap_of(held, wanted);
  build.copy(build.input(own), build.output(own));
  for (int q : build.node_ranks()) {
    const Piece from = held_by(build, q), piece = overlap_of(from, wanted);
    if (q == build.rank() || piece.count == 0) continue;
    build.await(q, copied);
    build.copy(ScheduleBuilder::shared_of(q, {piece.first - from.first, piece.count}), build.output(piece));
  }
}

void shared_direct_move(ScheduleBuilder& build) {
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

}  // namespace distdl::comm
