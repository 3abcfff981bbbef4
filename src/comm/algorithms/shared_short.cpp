// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/node_terms.hpp>

namespace distdl::comm {
namespace {

/// The piece of every rank's operand that a short sum needs: all, or only the own slice.
Piece needed(const ScheduleBuilder& build) {
  return build.problem().collective == Collective::reduce_scatter ? build.slice(build.rank()) : build.whole();
}

/// Upper bound of what a rank copies to Space::shared. It is the same on all ranks.
std::size_t shared_bytes(const Problem& problem) {
  std::size_t most = problem.count;
  if (problem.collective == Collective::all_gather || problem.collective == Collective::gather)
    for (std::size_t count : problem.counts) most = std::max(most, count);
  else if (problem.collective == Collective::all_to_all)
    most *= problem.size;
  else
    most = std::accumulate(problem.counts.begin(), problem.counts.end(), most);
  int parts = 1;
  if (is_sum(problem.collective))
    for (int each : parts_of(problem)) parts = std::max(parts, each);
  const std::size_t lines = (most * problem.element + 63) / 64;
  return lines * 64 * (parts - 1) + most * problem.element;
}

void barrier(ScheduleBuilder& build) {
  build.keep_short();
  build.await_all(build.signal());
}

void sum(ScheduleBuilder& build) {
  if (shared_bytes(build.problem()) <= kShortSharedBytes) build.keep_short();
  const std::size_t total = build.whole().count;
  const std::vector<Term> terms = terms_of(build.problem());
  const auto shared_part = [&](const Term& term, Piece piece) {
    return Piece{build.line() * segments_in(total, build.line()) * term.part + piece.first, piece.count};
  };
  const bool only_here = build.problem().collective == Collective::reduce && has_result(build.problem(), build.rank());
  for (const Term& term : terms)
    if (term.rank == build.rank() && !only_here) {
      build.reserve_shared(total);
      build.copy(build.input(build.whole(), term.part), build.shared(shared_part(term, build.whole())));
    }
  const std::uint32_t copied = build.signal();
  if (!has_result(build.problem(), build.rank())) return;
  build.await_all(copied);
  const Piece piece = needed(build);
  std::vector<Block> blocks;
  blocks.reserve(terms.size());
  for (const Term& term : terms)
    blocks.push_back(term.rank == build.rank() ? build.input(piece, term.part)
                                               : ScheduleBuilder::shared_of(term.rank, shared_part(term, piece)));
  const Block result = build.output(piece);
  build.reduce(operands(blocks, reductions_of(build, terms)), {&result, 1}, true);
}

void move(ScheduleBuilder& build) {
  if (shared_bytes(build.problem()) <= kShortSharedBytes) build.keep_short();
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

void all_to_all(ScheduleBuilder& build) {
  if (shared_bytes(build.problem()) <= kShortSharedBytes) build.keep_short();
  const int self = build.rank();
  const std::size_t each = build.problem().count;
  build.reserve_shared(build.size() * each);
  build.copy({self, Space::input, 0, 0, build.size() * each}, build.shared({0, build.size() * each}));
  const std::uint32_t copied = build.signal();
  for (int i = 0; i < build.size(); ++i) {
    const int q = (self + i) % build.size();
    if (q != self) build.await(q, copied);
    build.copy(ScheduleBuilder::shared_of(q, {self * each, each}), received_block(build, q, self));
  }
}

Generator generator(const Problem& problem, const Choice&) {
  if (!is_on_one_node(problem)) return nullptr;
  if (problem.collective == Collective::barrier) return barrier;
  if (problem.collective == Collective::all_to_all && problem.count == 0) return nullptr;
  if (shared_bytes(problem) > kSharedBytes || 64 % problem.element != 0) return nullptr;
  if (problem.collective == Collective::all_to_all) return all_to_all;
  return is_sum(problem.collective) ? sum : move;
}

double predicted_seconds(const CostModel& model) {
  double moved = model.total, fetched = model.total;
  if (is_sum(model.collective) || model.collective == Collective::all_gather) fetched *= model.ranks - 1;
  if (model.collective == Collective::gather) fetched = moved -= model.slice;
  if (model.collective == Collective::scatter) moved -= fetched = model.slice;
  return model.costs.signal + (2 + model.ranks) * model.costs.step +
         model.work(2 * moved, 2 * moved, model.costs.copy) +
         std::max(model.fetch(fetched), model.phases_in() ? model.add(fetched) : 0);  // a sum adds while it fetches
}

}  // namespace

/// Within one node: every rank copies to shared memory, signals once, and reduces all.
extern const Algorithm kSharedShort{
    .name = "shared_short",
    .shared_use = SharedUse::areas,
    .tries_segments = false,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
