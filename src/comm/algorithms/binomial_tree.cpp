// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/tree_broadcast.hpp>
#include <distdl/comm/algorithms/tree_reduction.hpp>

namespace distdl::comm {
namespace {

/// Gather and scatter along a binomial tree. Ranks are counted from the root: place 0. Below place v with lowest bit b
/// lie places v .. v + b - 1. A rank in between keeps the slices of all places below in its scratch, in that order; in
/// the vector they are in rank order, and therefore in two pieces where they pass the last rank.
class Subtrees {
 public:
  explicit Subtrees(ScheduleBuilder& build)
      : build_(build), size_(build.size()), root_(build.problem().root), self_((build.rank() - root_ + size_) % size_) {
    for (int place = 0; place < size_; ++place)
      begins_.push_back(begins_.back() + build.slice((place + root_) % size_).count);
    lowest_ = self_ ? self_ & -self_ : 2 * size_;
    if (self_ && lowest_ > 1) room_ = build.reserve_scratch(begins_[end_below(self_, lowest_)] - begins_[self_]);
    group_ = build.new_group();
  }

  void gather() {
    const Piece own = build_.slice(build_.rank());
    if (lowest_ > 1) build_.copy(build_.input(own), self_ ? held(own, self_) : build_.output(own));
    for_each_child([&](int child, int end) {
      for_each_piece(child, end, [&](Piece piece, int first) {
        build_.receive((child + root_) % size_, self_ ? held(piece, first) : build_.output(piece), group_);
      });
    });
    build_.wait(group_);
    for_each_piece(self_, end_below(self_, lowest_), [&](Piece piece, int first) {
      if (self_) build_.send(parent(), lowest_ > 1 ? held(piece, first) : build_.input(piece), group_);
    });
    build_.wait(group_);
  }

  void scatter() {
    const Piece own = build_.slice(build_.rank());
    for_each_piece(self_, end_below(self_, lowest_), [&](Piece piece, int first) {
      if (self_) build_.receive(parent(), lowest_ > 1 ? held(piece, first) : build_.output(piece), group_);
    });
    build_.wait(group_);
    for_each_child([&](int child, int end) {
      for_each_piece(child, end, [&](Piece piece, int first) {
        build_.send((child + root_) % size_, self_ ? held(piece, first) : build_.input(piece), group_);
      });
    });
    if (lowest_ > 1) build_.copy(self_ ? held(own, self_) : build_.input(own), build_.output(own));
    build_.wait(group_);
  }

 private:
  int end_below(int place, int width) const { return std::min(size_, place + width); }
  int parent() const { return (self_ - lowest_ + root_) % size_; }

  /// The child with most below it first.
  template <class Use>
  void for_each_child(Use use) const {
    int bit = 1;
    while (2 * bit < size_) bit *= 2;
    for (; bit > 0; bit /= 2)
      if (bit < lowest_ && self_ + bit < size_) use(self_ + bit, end_below(self_ + bit, bit));
  }

  /// The slices of places [begin, end) in the vector; `first` is the place of the first.
  template <class Use>
  void for_each_piece(int begin, int end, Use use) const {
    const int wrap = std::clamp(size_ - root_, begin, end);  // the place of rank 0
    if (begin < wrap) use(Piece{build_.slice((begin + root_) % size_).first, begins_[wrap] - begins_[begin]}, begin);
    if (wrap < end) use(Piece{build_.slice((wrap + root_) % size_).first, begins_[end] - begins_[wrap]}, wrap);
  }

  Block held(Piece piece, int first) const {
    return build_.scratch({room_ + begins_[first] - begins_[self_], piece.count});
  }

  ScheduleBuilder& build_;
  int size_, root_, self_, lowest_ = 0, group_ = 0;
  std::vector<std::size_t> begins_{0};  ///< begin of each place, counted in elements from place 0
  std::size_t room_ = 0;
};

void binomial_broadcast(ScheduleBuilder& build) {
  const TreePlace place = binomial_place(build.size(), build.problem().root, build.rank());
  broadcast(build, {{build.whole(), place.parent, place.children}});
}

void binomial_reduce(ScheduleBuilder& build) {
  reduce_along(build, binomial_tasks(build.problem(), build.whole()), Order::deterministic);
}

void binomial_gather(ScheduleBuilder& build) {
  Subtrees(build).gather();
}
void binomial_scatter(ScheduleBuilder& build) {
  Subtrees(build).scatter();
}

Generator generator(const Problem& problem, const Choice&) {
  switch (problem.collective) {
    case Collective::broadcast:
      return binomial_broadcast;
    case Collective::reduce:
      return binomial_reduce;
    case Collective::gather:
      return binomial_gather;
    case Collective::scatter:
      return binomial_scatter;
    default:
      return nullptr;
  }
}

double predicted_seconds(const CostModel& model) {
  double seconds = 0;
  for (int k = 0; k < model.at.rounds(); ++k) {
    const bool slices = model.collective == Collective::gather || model.collective == Collective::scatter;
    const double bytes = slices ? model.slice * (1 << k) : model.total;
    const double transfer = model.hop(bytes, model.at.climbing(k));
    if (model.phases_in()) seconds += model.overlapped(transfer, model.add(bytes), bytes);
    if (model.phases_out()) seconds += transfer;
  }
  return seconds;
}

}  // namespace

/// The fixed tree of sums itself: reduce, broadcast, gather, scatter.
extern const Algorithm kBinomial{
    .name = "binomial",
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
