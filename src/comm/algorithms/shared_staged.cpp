// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/node_exchange.hpp>
#include <distdl/comm/algorithms/node_terms.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kHalves = 2;  ///< halves of the shared area: one is filled while the other is emptied

/// Elements of a slice that there is room for at a time.
std::size_t room_for_slice(const Problem& problem) {
  int parts = 1;
  for (int each : parts_of(problem)) parts = std::max(parts, each);
  const std::size_t line = std::max<std::size_t>(1, 64 / problem.element);
  return kSharedBytes / problem.element / kHalves / parts / problem.size / line * line;
}

std::size_t staged_length(const ScheduleBuilder& build) {
  const std::size_t length = room_for_slice(build.problem());
  return build.choice().segment ? std::min(length, build.segment(length)) : length;
}

/// A sum through shared memory. In turn t each rank copies segment t of all slices but its own into its shared area,
/// adds segment t - 1 of its own slice, and reads segment t - 2 of the other slices from the areas of their owners.
/// There is one signal per turn: a rank that has seen turn t - 1 of all others may reuse the half of turn t - 2.
class StagedSum {
 public:
  explicit StagedSum(ScheduleBuilder& build)
      : build_(build), terms_(terms_of(build.problem())), length_(staged_length(build)) {
    for (const Term& term : terms_) parts_ = std::max<std::size_t>(parts_, term.part + 1u);
    for (int q = 0; q < build.size(); ++q) segments_ = std::max(segments_, segments_in(build.slice(q).count, length_));
    reductions_ = reductions_of(build, terms_);
    build.reserve_shared(kHalves * parts_ * build.size() * length_);
  }

  void run() {
    const bool scatters = build_.problem().collective == Collective::reduce_scatter;
    const bool takes = !scatters && has_result(build_.problem(), build_.rank());
    const std::size_t turns = segments_ + (takes ? 2 : 1), last_signal = segments_ + (scatters ? 0 : 1);
    for (std::size_t t = 0, stage = 0; segments_ > 0 && t < turns; ++t) {
      if (stage) build_.await_all(static_cast<std::uint32_t>(stage));
      if (t < segments_) offer(t);
      if (t >= 1 && t <= segments_) add(t - 1);
      if (takes && t >= 2) take(t - 2);
      if (t < last_signal) stage = build_.signal();
    }
  }

 private:
  Piece piece(int owner, std::size_t t) const { return segment_of(build_.slice(owner), t, length_); }

  Block stage_of(int rank, int part, int owner, std::size_t t) const {
    const std::size_t place = (t % kHalves * parts_ + part) * build_.size() + owner;
    return ScheduleBuilder::shared_of(rank, {place * length_, piece(owner, t).count});
  }

  void offer(std::size_t t) {
    for (const Term& term : terms_)
      for (int i = 1; i < build_.size() && term.rank == build_.rank(); ++i) {
        const int owner = (build_.rank() + i) % build_.size();
        build_.copy(build_.input(piece(owner, t), term.part), stage_of(build_.rank(), term.part, owner, t));
      }
  }

  // The own slice is not offered: its place takes the sum.
  void add(std::size_t t) {
    const int self = build_.rank();
    std::vector<Block> blocks, targets;
    for (const Term& term : terms_)
      blocks.push_back(term.rank == self ? build_.input(piece(self, t), term.part)
                                         : stage_of(term.rank, term.part, self, t));
    if (has_result(build_.problem(), self)) targets.push_back(build_.output(piece(self, t)));
    const bool others =
        build_.problem().collective == Collective::all_reduce ? build_.size() > 1 : !has_result(build_.problem(), self);
    if (others) targets.push_back(stage_of(self, 0, self, t));
    build_.reduce(operands(blocks, reductions_), targets, true);
  }

  void take(std::size_t t) {
    for (int i = 1; i < build_.size(); ++i) {
      const int owner = (build_.rank() + i) % build_.size();
      build_.copy(stage_of(owner, 0, owner, t), build_.output(piece(owner, t)));
    }
  }

  ScheduleBuilder& build_;
  std::vector<Term> terms_;
  std::vector<std::uint16_t> reductions_;
  std::size_t parts_ = 1, length_ = 0, segments_ = 0;
};

void sum(ScheduleBuilder& build) {
  StagedSum(build).run();
}

// In turn t each rank offers segment t of what it holds and takes segments t - 1.
void move(ScheduleBuilder& build) {
  const int self = build.rank();
  const Piece held = held_by(build, self), wanted = wanted_by(build, self);
  const std::size_t room = kSharedBytes / build.problem().element / kHalves / build.line() * build.line();
  const std::size_t length = build.segment(room);
  std::size_t segments = 0;
  for (int q = 0; q < build.size(); ++q) segments = std::max(segments, segments_in(held_by(build, q).count, length));
  if (is_wanted_elsewhere(build, held)) build.reserve_shared(held.count > length ? kHalves * length : held.count);
  build.copy(build.input(overlap_of(held, wanted)), build.output(overlap_of(held, wanted)));
  std::uint32_t stage = 0;
  for (std::size_t t = 0; segments > 0 && t <= segments; ++t) {
    if (stage) build.await_all(stage);
    const Piece offered = segment_of(held, t, length);
    if (t < segments && is_wanted_elsewhere(build, offered))
      build.copy(build.input(offered), build.shared({t % kHalves * length, offered.count}));
    for (int q : build.node_ranks()) {
      if (t == 0 || q == self) continue;
      const Piece there = segment_of(held_by(build, q), t - 1, length), piece = overlap_of(there, wanted);
      build.copy(ScheduleBuilder::shared_of(q, {(t - 1) % kHalves * length + piece.first - there.first, piece.count}),
                 build.output(piece));
    }
    if (t < segments) stage = build.signal();
  }
}

// In the rounds of pairwise_all_to_all(), so that in place a block arrives where one went in the same turn.
void all_to_all(ScheduleBuilder& build) {
  std::vector<Handover> all;
  for (int round = 0; round < build.size(); ++round)
    for (int from = 0; from < build.size(); ++from) {
      const int to = (round + build.size() - from) % build.size();
      all.push_back({sent_block(build, from, to), {received_block(build, from, to)}});
    }
  NodeExchange(build, NodeExchange::Way::staged).run(all);
}

Generator generator(const Problem& problem, const Choice&) {
  if (!is_on_one_node(problem) || problem.collective == Collective::barrier) return nullptr;
  if (problem.collective == Collective::all_to_all) return problem.count > 0 ? all_to_all : nullptr;
  if (!is_sum(problem.collective)) return move;
  return room_for_slice(problem) > 0 ? sum : nullptr;
}

double predicted_seconds(const CostModel& model) {
  return model.within_node(model.at.widest(), model.total, true);
}

}  // namespace

/// Within one node: as shared_direct, but through the shared areas, in pieces, for memory that is not shared.
extern const Algorithm kSharedStaged{
    .name = "shared_staged",
    .shared_use = SharedUse::areas,
    .tries_segments = false,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
