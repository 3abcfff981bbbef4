// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/moves.hpp>

namespace distdl::comm {

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

Block sent_block(const ScheduleBuilder& build, int from, int to) {
  return {from, Space::input, 0, to * build.problem().count, build.problem().count};
}

Block received_block(const ScheduleBuilder& build, int from, int to) {
  return {to, Space::output, 0, from * build.problem().count, build.problem().count};
}

}  // namespace distdl::comm
