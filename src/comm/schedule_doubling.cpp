// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include <distdl/comm/doubling_sum.hpp>
#include <distdl/comm/schedule_families.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kAhead = 3;  ///< segments under way while one is added

std::vector<LeafRange> leaves_in_order(const Problem& problem) {
  std::vector<LeafRange> leaves;
  for (const Term& term : terms_of(problem)) leaves.push_back(term.leaves);
  return leaves;
}

/// Each rank's place in the order of the sum; empty unless each brings exactly one partial sum.
std::vector<int> one_term_each(const Problem& problem) {
  const std::vector<Term> terms = terms_of(problem);
  std::vector<int> members;
  members.reserve(terms.size());
  for (const Term& term : terms) members.push_back(term.rank);
  std::vector<int> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const bool once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  return once && static_cast<int>(members.size()) == problem.size ? members : std::vector<int>{};
}

/// Vector halving with distance doubling, and back.
class HalvingSum {
 public:
  explicit HalvingSum(ScheduleBuilder& build)
      : build_(build), members_(one_term_each(build.problem())), leaving_(build.new_group()) {
    self_ = static_cast<int>(std::find(members_.begin(), members_.end(), build.rank()) - members_.begin());
    length_ = build.segment(std::max<std::size_t>(1, build.whole().count));
    const std::size_t half = slice_of(build.whole(), 2, 0, build.line()).count;
    room_ = build.line() * segments_in(std::min(length_, half), build.line());
    arrivals_ = build.reserve_scratch(room_ * std::min(kAhead, segments_in(half, length_)));
    for (int& group : groups_) group = build.new_group();
  }

  void run() {
    const int size = build_.size();
    if (size == 1) return build_.copy(build_.input(build_.whole()), build_.output(build_.whole()), true);
    Piece held = build_.whole();
    std::vector<Piece> given;
    for (int bit = 1; bit < size; bit *= 2) {
      const bool upper = self_ & bit;
      const Piece keep = slice_of(held, 2, upper, build_.line()), give = slice_of(held, 2, !upper, build_.line());
      halve(bit, keep, give);
      given.push_back(give);
      held = keep;
    }
    for (int bit = size / 2; bit > 0; bit /= 2) {
      const int partner = members_[self_ ^ bit];
      build_.receive(partner, build_.output(given.back()), leaving_);
      build_.send(partner, build_.output(held), leaving_);
      build_.wait(leaving_);
      held = {std::min(held.first, given.back().first), held.count + given.back().count};
      given.pop_back();
    }
  }

 private:
  Block operand(int bit, Piece piece) const { return bit == 1 ? build_.input(piece) : build_.output(piece); }

  void halve(int bit, Piece keep, Piece give) {
    const int partner = members_[self_ ^ bit];
    const std::size_t segments = segments_in(keep.count, length_);
    const auto arrival = [&](std::size_t t) {
      return build_.scratch({arrivals_ + t % kAhead * room_, segment_of(keep, t, length_).count});
    };
    for (std::size_t t = 0; t < std::min(kAhead, segments); ++t) build_.receive(partner, arrival(t), groups_[t]);
    for (std::size_t t = 0; t < segments_in(give.count, length_); ++t)
      build_.send(partner, operand(bit, segment_of(give, t, length_)), leaving_);
    for (std::size_t t = 0; t < segments; ++t) {
      build_.wait(groups_[t % kAhead]);
      const Block own = operand(bit, segment_of(keep, t, length_));
      const bool right = self_ & bit;  // the partner's leaves come first
      const Operand sources[] = {{right ? arrival(t) : own, 0}, {right ? own : arrival(t), 1}};
      const Block target = build_.output(segment_of(keep, t, length_));
      build_.combine(sources, {&target, 1}, 2 * bit == build_.size());
      if (t + kAhead < segments) build_.receive(partner, arrival(t + kAhead), groups_[t % kAhead]);
    }
    build_.wait(leaving_);
  }

  ScheduleBuilder& build_;
  std::vector<int> members_;
  int self_ = 0, leaving_;
  std::array<int, kAhead> groups_{};
  std::size_t length_ = 1, room_ = 0, arrivals_ = 0;
};

}  // namespace

bool can_double(const Problem& problem) {
  return !one_term_each(problem).empty();
}

bool can_halve(const Problem& problem) {
  if (!std::has_single_bit(static_cast<unsigned>(problem.size)) || !can_double(problem)) return false;
  const auto merges = merges_of(leaves_in_order(problem), leaves_of(problem), Order::fixed);
  for (std::size_t i = 0; i < merges.size(); ++i)
    if (merges[i] != std::countr_one(i)) return false;  // the tree over the ranks is not a full one
  return true;
}

void doubling_sum(ScheduleBuilder& build) {
  const Block result = build.output(build.whole());
  DoublingSum sum(build, one_term_each(build.problem()), leaves_in_order(build.problem()), leaves_of(build.problem()),
                  build.whole().count);
  sum.run(build.input(build.whole()), {&result, 1});
}

void halving_sum(ScheduleBuilder& build) {
  HalvingSum(build).run();
}

void doubling_gather(ScheduleBuilder& build) {
  const int self = build.rank(), group = build.new_group();
  const auto slices = [&](int first, int count) {
    return build.output({build.slice(first).first, build.slice(first).count * count});
  };
  build.copy(build.input(build.slice(self)), build.output(build.slice(self)));
  for (int bit = 1; bit < build.size(); bit *= 2) {
    const int partner = self ^ bit;
    build.receive(partner, slices(partner & ~(bit - 1), bit), group);
    build.send(partner, slices(self & ~(bit - 1), bit), group);
    build.wait(group);
  }
}

}  // namespace distdl::comm
