// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/comm/algorithms/algorithm.hpp>

namespace distdl::comm {
namespace {

constexpr std::size_t kRingAhead = 2;  ///< segments that may arrive while one is added

/// Slices go round a ring of ranks (Patarasuk, Yuan, J. Parallel Distrib. Comput. 2009): in the first size - 1 laps
/// every rank adds its own operand to what arrives and sends it on, after which it has the sum over its own slice; in
/// as many further laps the sums go round. A lap goes segment by segment: what arrives as unit u of all segments of all
/// laps is sent on at once, as the next rank's unit u + (segments in a slice).
class Ring {
 public:
  explicit Ring(ScheduleBuilder& build)
      : build_(build), collective_(build.problem().collective), size_(build.size()), self_(build.rank()) {
    std::size_t longest = 0;
    for (int q = 0; q < size_; ++q) longest = std::max(longest, build.slice(q).count);
    length_ = build.segment(std::max<std::size_t>(1, longest));
    segments_ = segments_in(longest, length_);
    const std::size_t lap = segments_ * (size_ - 1);
    adding_ = collective_ == Collective::all_gather ? 0 : lap;
    units_ = adding_ + (collective_ == Collective::reduce_scatter ? 0 : lap);
    slots_ = std::min(segments_ + 2 * kRingAhead, adding_);
    room_ = build.line() * segments_in(std::min(length_, longest), build.line());
    rooms_ = build.reserve_scratch(slots_ * room_);
    for (int& group : arriving_) group = build.new_group();
    for (std::size_t slot = 0; slot < slots_; ++slot) leaving_.push_back(build.new_group());
    first_ = build.new_group();
    rest_ = build.new_group();
  }

  void run() {
    const Piece own = build_.slice(self_);
    if (adding_ == 0) build_.copy(build_.input(own), build_.output(own), collective_ != Collective::all_gather);
    if (size_ == 1) return;
    const int next = (self_ + 1) % size_;
    for (std::size_t i = 0; i < segments_; ++i) build_.send(next, build_.input(piece(-1, i)), first_);
    std::size_t posted = 0;
    for (std::size_t u = 0; u < units_; ++u) {
      for (; posted < std::min(units_, u + kRingAhead); ++posted) post(posted);
      build_.wait(arriving_[u % kRingAhead]);
      if (u < adding_) add(u);
      if (u + segments_ < units_) build_.send(next, held(u), u < adding_ ? leaving_[u % slots_] : rest_);
    }
    for (int group : leaving_) build_.wait(group);
    build_.wait(first_);
    build_.wait(rest_);
  }

 private:
  std::size_t lap_of(std::size_t unit) const { return unit / segments_; }

  /// The segment that arrives in a lap; lap -1 is what this rank sends first.
  Piece piece(std::ptrdiff_t lap, std::size_t segment) const {
    const std::ptrdiff_t ahead = collective_ == Collective::all_gather ? 1 : 2;
    const std::ptrdiff_t owner = self_ + 2 * size_ - (lap + ahead) % size_;
    return segment_of(build_.slice(static_cast<int>(owner % size_)), segment, length_);
  }
  Piece piece_of(std::size_t unit) const { return piece(static_cast<std::ptrdiff_t>(lap_of(unit)), unit % segments_); }

  Block room(std::size_t unit) const { return build_.scratch({rooms_ + unit % slots_ * room_, piece_of(unit).count}); }

  bool is_final(std::size_t unit) const { return unit + segments_ >= adding_; }

  /// Where unit u lies once it is complete here.
  Block held(std::size_t unit) const { return is_final(unit) ? build_.output(piece_of(unit)) : room(unit); }

  void post(std::size_t unit) {
    if (unit < adding_) {
      build_.wait(leaving_[unit % slots_]);
    } else if (unit == adding_ && adding_ > 0) {
      build_.wait(first_);  // in place it arrives where the first sends lie
    }
    build_.receive((self_ + size_ - 1) % size_, unit < adding_ ? room(unit) : build_.output(piece_of(unit)),
                   arriving_[unit % kRingAhead]);
  }

  void add(std::size_t unit) {
    const Operand sources[] = {{room(unit), 0}, {build_.input(piece_of(unit)), 1}};
    const Block target = held(unit);
    build_.reduce(sources, {&target, 1}, is_final(unit));
  }

  ScheduleBuilder& build_;
  Collective collective_;
  int size_, self_;
  std::size_t length_ = 1, segments_ = 0;
  std::size_t adding_ = 0;  ///< units of the laps that add
  std::size_t units_ = 0;
  std::size_t slots_ = 0, room_ = 0, rooms_ = 0;
  std::array<int, kRingAhead> arriving_{};
  std::vector<int> leaving_;
  int first_ = 0, rest_ = 0;
};

void ring(ScheduleBuilder& build) {
  Ring(build).run();
}

Generator generator(const Problem& problem, const Choice& choice) {
  if (problem.collective == Collective::all_gather) return ring;
  const bool sums = problem.collective == Collective::all_reduce || problem.collective == Collective::reduce_scatter;
  return sums && choice.order == Order::any && !one_term_each(problem).empty() ? ring : nullptr;
}

double predicted_seconds(const CostModel& model) {
  const double lap = std::max(model.hop(model.slice, model.at.shifting(0)),
                              model.at.widest() > 1 ? model.near(model.slice, model.total) : 0);
  const double around = (model.ranks - 1) * lap;
  const double adding = (model.ranks - 1) * model.add(model.slice);
  double seconds = model.phases_out() * around;
  if (model.phases_in()) seconds += model.overlapped(around, adding, model.total);
  return seconds;
}

}  // namespace

extern const Algorithm kRing{
    .name = "ring",
    .reorders_sums = true,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
