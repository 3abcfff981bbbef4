// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>

#include <distdl/comm/algorithms/algorithm.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kHalvingAhead = 3;  ///< segments under way in each direction while one is added

/// Vector halving with distance doubling, for an all-reduce also back. The distance doubles, other than in MPICH, as
/// the tree adds neighbours first. In step b therefore the ranks with bit b of their place take the upper half of what
/// they still hold, and a rank ends with part `reversed place` of the vector.
///
/// A reduce-scatter, where that part is to be the own slice, works on a vector of which the slices lie in the order of
/// reversed places: of the operand, only what is given away first is copied so.
///
/// No rank is more than a window ahead of another: what arrives early would fill the memory of UCX.
class HalvingSum {
 public:
  explicit HalvingSum(ScheduleBuilder& build)
      : build_(build),
        scatters_(build.problem().collective == Collective::reduce_scatter),
        size_(static_cast<std::size_t>(build.size())),
        members_(one_term_each(build.problem())) {
    self_ = static_cast<std::size_t>(std::find(members_.begin(), members_.end(), build.rank()) - members_.begin());
    length_ = build.segment(std::max<std::size_t>(1, build.whole().count));
    begins_.resize(size_ + 1, build.whole().end());
    if (scatters_)
      lay_out_slices();
    else
      lay_out(0, size_, build.whole());
    reserve();
  }

  void run() {
    if (size_ == 1) return build_.copy(build_.input(build_.whole()), build_.output(build_.whole()), true);
    std::size_t first = 0;
    std::vector<Piece> given;
    for (std::size_t bit = 1; bit < size_; bit *= 2) {
      const std::size_t width = size_ / bit / 2;
      const bool upper = self_ & bit;
      given.push_back(parts(first + (upper ? 0 : width), width));
      if (upper) first += width;
      halve(bit, parts(first, width), given.back());
    }
    if (!scatters_) double_back(parts(first, 1), given);
  }

 private:
  /// Parts [first, first + count) of the vector.
  Piece parts(std::size_t first, std::size_t count) const {
    return {begins_[first], begins_[first + count] - begins_[first]};
  }

  void lay_out(std::size_t first, std::size_t count, Piece piece) {
    begins_[first] = piece.first;
    if (count == 1) return;
    lay_out(first, count / 2, slice_of(piece, 2, 0, build_.line()));
    lay_out(first + count / 2, count / 2, slice_of(piece, 2, 1, build_.line()));
  }

  void lay_out_slices() {
    std::size_t begin = 0;
    for (std::size_t part = 0; part < size_; ++part) {
      begins_[part] = begin;
      begin += slice_in(part).count;
    }
  }

  std::size_t reversed(std::size_t place) const {
    std::size_t part = 0;
    for (std::size_t bit = 1, mirrored = size_ / 2; mirrored > 0; bit *= 2, mirrored /= 2)
      if (place & bit) part |= mirrored;
    return part;
  }

  /// Returns the slice of the owner of a part.
  Piece slice_in(std::size_t part) const { return build_.slice(members_[reversed(part)]); }

  void reserve() {
    const Piece halves[] = {parts(0, size_ / 2), parts(size_ / 2, size_ - size_ / 2)};
    const std::size_t half = std::max(halves[0].count, halves[1].count);
    room_ = build_.line() * segments_in(std::min(length_, half), build_.line());
    const std::size_t rooms = room_ * std::min(kHalvingAhead, segments_in(half, length_));
    arrivals_ = build_.reserve_scratch(rooms);
    if (scatters_) packed_ = build_.reserve_scratch(rooms);
    if (scatters_ && size_ > 2) sums_ = build_.reserve_scratch(half);
    for (int& group : arriving_) group = build_.new_group();
    for (int& group : leaving_) group = build_.new_group();
  }

  /// Where what is summed so far lies: with reduce_scatter the parts that the rank kept in its first step.
  Block held(Piece piece) const {
    if (!scatters_) return build_.output(piece);
    const std::size_t base = self_ & 1 ? begins_[size_ / 2] : 0;
    return build_.scratch({sums_ + piece.first - base, piece.count});
  }

  /// Calls use(operand, offset in the piece) for each contiguous part of the operand.
  template <class Use>
  void for_each_operand(Piece piece, Use use) const {
    if (!scatters_) return use(build_.input(piece), std::size_t{0});
    auto at = std::upper_bound(begins_.begin(), begins_.end() - 1, piece.first) - 1;
    for (; at + 1 != begins_.end() && *at < piece.end(); ++at) {
      const std::size_t part = static_cast<std::size_t>(at - begins_.begin());
      const Piece common = overlap_of(piece, parts(part, 1));
      const std::size_t first = slice_in(part).first + common.first - *at;
      if (common.count > 0) use(build_.input({first, common.count}), common.first - piece.first);
    }
  }

  void send(std::size_t bit, Piece piece, std::size_t t) {
    const std::size_t slot = t % kHalvingAhead;
    build_.wait(leaving_[slot]);
    Block block = bit > 1 ? held(piece) : build_.input(piece);
    if (bit == 1 && scatters_) {
      block = build_.scratch({packed_ + slot * room_, piece.count});
      for_each_operand(piece, [&](Block from, std::size_t offset) {
        build_.copy(from, build_.scratch({block.first + offset, from.count}));
      });
    }
    build_.send(partner(bit), block, leaving_[slot]);
  }

  void add(std::size_t bit, Piece piece, Block arrived) {
    const bool last = 2 * bit == size_, right = self_ & bit;  // then the partner's leaves come first
    Block result = held(piece);
    if (scatters_ && last) {
      const Piece own = build_.slice(build_.rank());
      result = build_.output({own.first + piece.first - begins_[reversed(self_)], piece.count});
    }
    const auto add_part = [&](Block own, std::size_t offset) {
      const Block theirs = build_.scratch({arrived.first + offset, own.count});
      const Operand sources[] = {{right ? theirs : own, 0}, {right ? own : theirs, 1}};
      const Block target{result.rank, result.space, 0, result.first + offset, own.count};
      build_.reduce(sources, {&target, 1}, last);
    };
    if (bit == 1) return for_each_operand(piece, add_part);
    add_part(held(piece), 0);
  }

  void halve(std::size_t bit, Piece keep, Piece give) {
    const std::size_t arriving = segments_in(keep.count, length_), leaving = segments_in(give.count, length_);
    const auto arrival = [&](std::size_t t) {
      return build_.scratch({arrivals_ + t % kHalvingAhead * room_, segment_of(keep, t, length_).count});
    };
    std::size_t received = 0, sent = 0;
    for (std::size_t t = 0; t < std::max(arriving, leaving); ++t) {
      for (; received < std::min(arriving, t + kHalvingAhead); ++received)
        build_.receive(partner(bit), arrival(received), arriving_[received % kHalvingAhead]);
      for (; sent < std::min(leaving, t + kHalvingAhead); ++sent) send(bit, segment_of(give, sent, length_), sent);
      if (t >= arriving) continue;
      build_.wait(arriving_[t % kHalvingAhead]);
      add(bit, segment_of(keep, t, length_), arrival(t));
    }
    for (int group : leaving_) build_.wait(group);
  }

  void double_back(Piece own, std::vector<Piece>& given) {
    for (std::size_t bit = size_ / 2; bit > 0; bit /= 2) {
      build_.receive(partner(bit), build_.output(given.back()), leaving_[0]);
      build_.send(partner(bit), build_.output(own), leaving_[0]);
      build_.wait(leaving_[0]);
      own = {std::min(own.first, given.back().first), own.count + given.back().count};
      given.pop_back();
    }
  }

  int partner(std::size_t bit) const { return members_[self_ ^ bit]; }

  ScheduleBuilder& build_;
  bool scatters_;
  std::size_t size_;
  std::vector<int> members_;
  std::size_t self_ = 0;
  std::vector<std::size_t> begins_;  ///< begin of each part of the vector, and its end
  std::array<int, kHalvingAhead> arriving_{}, leaving_{};
  std::size_t length_ = 1, room_ = 0, arrivals_ = 0, packed_ = 0, sums_ = 0;
};

/// Does each rank bring exactly one leaf of a full tree?
bool can_halve(const Problem& problem) {
  if (!std::has_single_bit(static_cast<unsigned>(problem.size)) || one_term_each(problem).empty()) return false;
  std::vector<LeafRange> leaves;
  for (const Term& term : terms_of(problem)) leaves.push_back(term.leaves);
  const auto reductions = reductions_of(leaves, leaves_of(problem), Order::deterministic);
  for (std::size_t i = 0; i < reductions.size(); ++i)
    if (reductions[i] != std::countr_one(i)) return false;  // the tree over the ranks is not a full one
  return true;
}

void halving_sum(ScheduleBuilder& build) {
  HalvingSum(build).run();
}

Generator generator(const Problem& problem, const Choice&) {
  const bool sums = problem.collective == Collective::all_reduce || problem.collective == Collective::reduce_scatter;
  return sums && can_halve(problem) ? halving_sum : nullptr;
}

double predicted_seconds(const CostModel& model) {
  double seconds = 0;
  for (int k = 0; k < model.at.rounds(); ++k) {
    const double halved = model.total / (2 << k), doubled = model.slice * (1 << (model.at.rounds() - 1 - k));
    if (model.phases_in())
      seconds += model.overlapped(model.hop(halved, model.at.exchanging(k)), model.add(halved), halved);
    if (model.phases_out()) seconds += model.hop(doubled, model.at.exchanging(k));
  }
  if (model.collective != Collective::reduce_scatter) return seconds;
  return seconds + model.ranks * model.costs.step +
         model.work(model.total, model.total, model.costs.copy);  // the slices in another order
}

}  // namespace

/// Vector halving, distance doubling, and back; ranks: a power of two. Rabenseifner 2004.
extern const Algorithm kRecursiveHalving{
    .name = "recursive_halving",
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
