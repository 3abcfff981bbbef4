// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <distdl/parallel/balanced_plan.hpp>
#include <distdl/parallel/gradient_sum.hpp>

namespace distdl::parallel {
namespace {
/// Ranks times the square of the places where ranges may begin: some milliseconds.
constexpr std::int64_t kMostWork = 1 << 18;
constexpr std::int64_t kLeastCells = 4;  ///< per rank
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Finds ranges of all ranks, in order, that keep the slowest one as short as possible. They begin at multiples of a
/// power of two. Dynamic programming over the ranks and the ends of their ranges.
class Division {
 public:
  Division(int microbatches, const StepCosts& costs, const std::vector<std::size_t>& arenas)
      : microbatches_(microbatches), seconds_(costs.microbatch_seconds), arenas_(arenas) {
    const auto ranks = static_cast<std::int64_t>(seconds_.size());
    const auto work = [&] { return ranks * cells() * cells(); };
    while (work() > kMostWork && microbatches_ / (2 * width_) >= kLeastCells * ranks) width_ *= 2;
    if (work() > 16 * kMostWork) return;
    const auto places = static_cast<std::size_t>(cells()) + 1;
    needs_.resize(places * places);
    for (int begin = 0; begin < cells(); ++begin)
      for (int end = begin + 1; end <= cells(); ++end)
        need_at(begin, end) = {arenas_for(range(begin, end), microbatches_),
                               comm::cover_size(range(begin, end), microbatches_)};
  }

  /// Empty if there is none with at most so many partial sums in each rank.
  std::vector<comm::LeafRange> with_partials(std::size_t most) {
    if (needs_.empty()) return {};
    std::vector<double> before(static_cast<std::size_t>(cells()) + 1, kNever), after(before);
    std::vector<std::vector<int>> begins(seconds_.size(), std::vector<int>(before.size()));
    before[0] = 0;
    for (std::size_t r = 0; r < seconds_.size(); ++r) {
      for (int end = 0; end <= cells(); ++end) {
        const auto [seconds, begin] = best_begin(before, r, end, most);
        after[static_cast<std::size_t>(end)] = seconds;
        begins[r][static_cast<std::size_t>(end)] = begin;
      }
      std::swap(before, after);
    }
    return before.back() < kNever ? ranges_of(begins) : std::vector<comm::LeafRange>();
  }

 private:
  struct Need {
    std::size_t arenas = 0, partials = 0;
  };
  int cells() const { return (microbatches_ + width_ - 1) / width_; }
  comm::LeafRange range(int begin, int end) const {
    return {begin * width_, std::min(end * width_, microbatches_) - begin * width_};
  }
  Need& need_at(int begin, int end) {
    const auto places = static_cast<std::size_t>(cells()) + 1;
    return needs_[static_cast<std::size_t>(begin) * places + static_cast<std::size_t>(end)];
  }

  /// For rank r, whose range ends at `end`; before[b]: the least seconds of the ranks before it, which end at b.
  std::pair<double, int> best_begin(const std::vector<double>& before, std::size_t r, int end, std::size_t most) {
    std::pair<double, int> best{kNever, 0};
    for (int begin = 0; begin < end; ++begin) {
      const Need need = need_at(begin, end);
      if (need.partials > most || need.arenas > arenas_[r]) continue;
      const double seconds = std::max(before[static_cast<std::size_t>(begin)], range(begin, end).count * seconds_[r]);
      if (seconds < best.first) best = {seconds, begin};
    }
    return best;
  }

  std::vector<comm::LeafRange> ranges_of(const std::vector<std::vector<int>>& begins) const {
    std::vector<comm::LeafRange> ranges(begins.size());
    int end = cells();
    for (std::size_t r = begins.size(); r-- > 0;) {
      const int begin = begins[r][static_cast<std::size_t>(end)];
      ranges[r] = range(begin, end);
      end = begin;
    }
    return ranges;
  }

  int microbatches_;
  const std::vector<double>& seconds_;
  const std::vector<std::size_t>& arenas_;
  int width_ = 1;  ///< microbatches from one possible begin of a range to the next
  std::vector<Need> needs_;
};

bool has_room(const MicrobatchPlan& plan, const std::vector<std::size_t>& arenas) {
  for (std::size_t r = 0; r < plan.ranges.size(); ++r)
    if (arenas_for(plan.ranges[r], plan.microbatches) > arenas[r]) return false;
  return true;
}
}  // namespace

std::size_t most_partials(const MicrobatchPlan& plan) {
  std::size_t most = 1;
  for (const auto& range : plan.ranges) most = std::max(most, comm::cover_size(range, plan.microbatches));
  return most;
}

double step_seconds(const MicrobatchPlan& plan, const StepCosts& costs) {
  double longest = 0;
  for (std::size_t r = 0; r < plan.ranges.size(); ++r)
    longest = std::max(longest, plan.ranges[r].count * costs.microbatch_seconds[r]);
  const auto partials = static_cast<double>(std::max(most_partials(plan), costs.partials));
  return longest + costs.other_seconds * partials / static_cast<double>(costs.partials);
}

std::optional<MicrobatchPlan> balanced_plan(const Options& options, const StepCosts& costs,
                                            const std::vector<std::size_t>& arenas) {
  std::vector<double> speeds;
  for (double seconds : costs.microbatch_seconds) speeds.push_back(1 / seconds);
  const MicrobatchPlan by_speed = make_plan(options, speeds);
  std::optional<MicrobatchPlan> best;
  double least = kNever;
  const auto consider = [&](const MicrobatchPlan& plan) {
    const double seconds = step_seconds(plan, costs);
    if (seconds < least && has_room(plan, arenas)) best = plan, least = seconds;
  };
  Division division(by_speed.microbatches, costs, arenas);
  const std::size_t most = std::max<std::size_t>(most_partials(by_speed), 2);
  for (std::size_t partials = 1; partials <= most; ++partials) {
    MicrobatchPlan plan = by_speed;
    plan.ranges = division.with_partials(partials);
    if (!plan.ranges.empty()) consider(plan);
  }
  consider(by_speed);
  return best;
}

}  // namespace distdl::parallel
