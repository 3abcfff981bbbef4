// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include <distdl/comm/algorithms/families.hpp>

namespace distdl::comm {
namespace {
constexpr int kMoveWindow = 8;  ///< transfers in each direction under way at a time
}  // namespace

Piece held_by(const ScheduleBuilder& build, int rank) {
  switch (build.problem().collective) {
    case Collective::all_gather:
    case Collective::gather:
      return build.slice(rank);
    default:
      return rank == build.problem().root ? build.whole() : Piece{};
  }
}

Piece wanted_by(const ScheduleBuilder& build, int rank) {
  switch (build.problem().collective) {
    case Collective::scatter:
      return build.slice(rank);
    case Collective::gather:
      return rank == build.problem().root ? build.whole() : Piece{};
    default:
      return build.whole();
  }
}

bool is_wanted_elsewhere(const ScheduleBuilder& build, Piece held) {
  return std::any_of(build.node_ranks().begin(), build.node_ranks().end(),
                     [&](int q) { return q != build.rank() && overlap_of(held, wanted_by(build, q)).count > 0; });
}

void pairwise_move(ScheduleBuilder& build) {
  const int self = build.rank(), size = build.size();
  const Piece held = held_by(build, self), wanted = wanted_by(build, self);
  std::array<int, kMoveWindow> groups{};
  for (int& group : groups) group = build.new_group();
  for (int k = 1; k < size; ++k) {
    const int to = (self + k) % size, from = (self - k + size) % size, group = groups[k % kMoveWindow];
    build.wait(group);
    build.receive(from, build.output(overlap_of(held_by(build, from), wanted)), group);
    build.send(to, build.input(overlap_of(held, wanted_by(build, to))), group);
  }
  const Piece own = overlap_of(held, wanted);
  build.copy(build.input(own), build.output(own));
  for (int group : groups) build.wait(group);
}

void disseminate(ScheduleBuilder& build, const std::vector<int>& members) {
  const auto self = std::find(members.begin(), members.end(), build.rank()) - members.begin();
  const std::size_t size = members.size();
  const int group = build.new_group();
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    build.receive(members[(self + size - distance) % size], build.scratch({}), group);
    build.send(members[(self + distance) % size], build.scratch({}), group);
    build.wait(group);
  }
}

void dissemination_barrier(ScheduleBuilder& build) {
  std::vector<int> everyone(build.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  disseminate(build, everyone);
}

}  // namespace distdl::comm
