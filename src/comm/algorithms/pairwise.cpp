// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/moves.hpp>
#include <distdl/comm/algorithms/pairwise_sum.hpp>

namespace distdl::comm {
namespace {

constexpr int kWindow = 8;  ///< transfers in each direction under way at a time

void pairwise_sum(ScheduleBuilder& build) {
  PairwiseSum(build).run();
}

void pairwise_move(ScheduleBuilder& build) {
  const int self = build.rank(), size = build.size();
  const Piece held = held_by(build, self), wanted = wanted_by(build, self);
  std::array<int, kWindow> groups{};
  for (int& group : groups) group = build.new_group();
  for (int k = 1; k < size; ++k) {
    const int to = (self + k) % size, from = (self - k + size) % size, group = groups[k % kWindow];
    build.wait(group);
    build.receive(from, build.output(overlap_of(held_by(build, from), wanted)), group);
    build.send(to, build.input(overlap_of(held, wanted_by(build, to))), group);
  }
  const Piece own = overlap_of(held, wanted);
  build.copy(build.input(own), build.output(own));
  for (int group : groups) build.wait(group);
}

// In round k, ranks a and b with a + b = k (modulo size) exchange. Every two ranks do so once, and the received block
// replaces the sent one. In place, a block must therefore first arrive in scratch memory. With different counts the
// operation is never in place.
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
  const std::size_t rooms = build.reserve_scratch(beside ? room * std::min(kWindow, size) : 0);
  std::array<int, kWindow> groups{};
  for (int& group : groups) group = build.new_group();
  const auto peer_in = [&](int round) { return (round + size - self) % size; };
  const auto arrival = [&](int round) {
    const int peer = peer_in(round);
    return beside ? build.scratch({rooms + round % kWindow * room, into(peer).count}) : into(peer);
  };
  for (int round = 0; round < size + kWindow; ++round) {
    if (round >= kWindow && round - kWindow < size) {
      build.wait(groups[round % kWindow]);
      if (beside && peer_in(round - kWindow) != self)
        build.copy(arrival(round - kWindow), into(peer_in(round - kWindow)));
    }
    if (round >= size) continue;
    const int peer = peer_in(round), group = groups[round % kWindow];
    if (peer == self) {
      build.copy(from(self), into(self));
    } else {
      build.receive(peer, arrival(round), group);
      build.send(peer, from(peer), group);
    }
  }
}

Generator generator(const Problem& problem, const Choice&) {
  if (problem.collective == Collective::all_to_all) return pairwise_all_to_all;
  if (problem.collective == Collective::barrier) return nullptr;
  return is_sum(problem.collective) ? pairwise_sum : pairwise_move;
}

double predicted_seconds(const CostModel& model) {
  const double adding =
      model.work((model.ranks + 1) * model.slice, (model.ranks + 1) * model.slice, model.costs.reduce);
  switch (model.collective) {
    case Collective::broadcast:
      return model.one_to_all(model.total);
    case Collective::gather:
    case Collective::scatter:
      return model.one_to_all(model.slice);
    case Collective::reduce:
      return model.overlapped(model.everyone(model.slice), adding, model.slice) + model.one_to_all(model.slice);
    case Collective::reduce_scatter:
      return model.overlapped(model.everyone(model.slice), adding, model.slice);
    case Collective::all_reduce:
      return model.overlapped(model.everyone(model.slice), adding, model.slice) + model.everyone(model.slice);
    case Collective::all_to_all:  // also copies the own block
      return model.everyone(model.slice) + model.work(2 * model.slice, 2 * model.total, model.costs.copy);
    default:
      return model.everyone(model.slice);
  }
}

}  // namespace

/// Every rank exchanges with every other one: slices go to their owners, and sums (or slices) come back.
extern const Algorithm kPairwise{
    .name = "pairwise",
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
