// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <distdl/comm/schedule_families.hpp>

namespace distdl::comm {
namespace {
constexpr int kWindow = 8;  ///< transfers in each direction under way at a time
constexpr int kAhead = 4;   ///< segments that a tree has under way on each link
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

void dissemination_barrier(ScheduleBuilder& build) {
  const int size = build.size(), group = build.new_group();
  for (int distance = 1; distance < size; distance *= 2) {
    build.receive((build.rank() - distance + size) % size, build.scratch({}), group);
    build.send((build.rank() + distance) % size, build.scratch({}), group);
    build.wait(group);
  }
}

void binomial_broadcast(ScheduleBuilder& build) {
  const int size = build.size(), root = build.problem().root;
  const int place = (build.rank() - root + size) % size;  // in the tree whose root is 0
  const int parent = ((place & (place - 1)) + root) % size;
  std::vector<int> children;  // the one with most below it first
  for (int bit = 1; bit < size && (place & bit) == 0; bit *= 2)
    if (place + bit < size) children.insert(children.begin(), (place + bit + root) % size);
  std::array<int, kAhead> arriving{}, leaving{};
  for (int i = 0; i < kAhead; ++i) arriving[i] = build.new_group(), leaving[i] = build.new_group();
  const std::size_t length = build.segment(build.whole().count);
  const std::size_t segments = segments_in(build.whole().count, length);
  std::size_t posted = 0;
  for (std::size_t t = 0; t < segments; ++t) {
    for (; place != 0 && posted < segments && posted < t + kAhead; ++posted)
      build.receive(parent, build.output(segment_of(build.whole(), posted, length)), arriving[posted % kAhead]);
    build.wait(arriving[t % kAhead]);
    build.wait(leaving[t % kAhead]);
    const Piece piece = segment_of(build.whole(), t, length);
    for (int child : children) build.send(child, place ? build.output(piece) : build.input(piece), leaving[t % kAhead]);
  }
  if (place == 0) build.copy(build.input(build.whole()), build.output(build.whole()));
  for (int group : leaving) build.wait(group);
}

}  // namespace distdl::comm
