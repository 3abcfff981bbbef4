// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <distdl/base/median.hpp>
#include <distdl/parallel/server/range_division.hpp>
#include <distdl/train/server/range_rule.hpp>

namespace distdl::train {
namespace {
/// Steps must become shorter. A worker whose own link is the slowest part may find servers slow that are not, and then
/// no division helps.
constexpr MoveRule::Limits kRangeLimits{.step = 0.98, .seconds_between = 0.25};

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}
}  // namespace

std::vector<double> element_seconds(const std::vector<optim::Elements>& ranges,
                                    std::span<const AnswerSeconds> of_ranks) {
  std::vector<double> all;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::vector<double> seen;
    for (const auto& rank : of_ranks)
      if (i < rank.ranges.size() && is_time(rank.ranges[i])) seen.push_back(rank.ranges[i]);
    const auto elements = static_cast<double>(ranges[i].count());
    all.push_back(elements > 0 ? median(std::move(seen)) / elements : 0);
  }
  return all;
}

RangeBalance::RangeBalance(optim::Options options, const tensor::ArenaLayout& layout, int servers)
    : options_(std::move(options)),
      layout_(layout),
      ranges_(parallel::server::equal_ranges(options_, layout, servers)),
      before_(ranges_),
      rule_(kRangeLimits) {}

bool RangeBalance::take(std::span<const AnswerSeconds> of_ranks) {
  const auto next = look(of_ranks);
  if (next == MoveRule::Next::go_back) std::swap(ranges_, before_);
  return next == MoveRule::Next::go_back || (next == MoveRule::Next::look && find_better());
}

MoveRule::Next RangeBalance::look(std::span<const AnswerSeconds> of_ranks) {
  auto seconds = element_seconds(ranges_, of_ranks);
  double step = 0;
  bool is_known = std::ranges::all_of(seconds, is_time);
  for (const auto& rank : of_ranks) {
    step = std::max(step, rank.step);
    is_known = is_known && is_time(rank.step);
  }
  if (!is_known) {
    rule_.skip();
    return MoveRule::Next::stay;
  }
  std::vector<double> elements;
  for (const auto& range : ranges_) elements.push_back(static_cast<double>(range.count()));
  return rule_.take(measured(elements, std::move(seconds), std::vector<double>(ranges_.size(), step)));
}

bool RangeBalance::find_better() {
  const auto& now = rule_.medians();
  auto ranges = parallel::server::ranges_for(options_, layout_, now.unit_seconds);
  const auto step = [&](const auto& each) {
    return now.other_seconds + parallel::server::slowest_seconds(each, now.unit_seconds);
  };
  const double gain = step(ranges_) / step(ranges);
  const bool has_empty = std::ranges::any_of(ranges, [](const auto& each) { return each.count() == 0; });
  const bool is_enough = gain >= rule_.limits().least_gain && !has_empty;
  if (!rule_.confirm(is_enough ? std::optional(gain) : std::nullopt)) return false;
  before_ = std::exchange(ranges_, std::move(ranges));
  return true;
}

}  // namespace distdl::train
