// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/log.hpp>
#include <distdl/base/median.hpp>
#include <distdl/train/server/range_mover.hpp>

namespace distdl::train {
namespace {
bool has_empty(const std::vector<optim::Elements>& ranges) {
  return std::ranges::any_of(ranges, [](const auto& range) { return range.count() == 0; });
}

/// "20 40 40": of all parameters.
std::string percent(const std::vector<std::int64_t>& elements) {
  double all = 0;
  for (const auto each : elements) all += static_cast<double>(each);
  std::vector<std::string> parts;
  parts.reserve(elements.size());
  for (const auto each : elements) parts.push_back(fmt::format("{:.0f}", 100 * static_cast<double>(each) / all));
  return fmt::format("{} %", fmt::join(parts, " "));
}
}  // namespace

RangeBalancing::RangeBalancing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator,
                               records::Observer& observer, const tensor::ArenaLayout& layout, ParameterServer& server)
    : setting_(setting), communicator_(communicator), observer_(observer), server_(server) {
  if (!recipe.train.balance || server.cluster().servers.size() < 2) return;
  balance_.emplace(recipe.optim, layout, static_cast<int>(server.cluster().servers.size()));
  answer_seconds_.resize(balance_->ranges().size());
  if (has_empty(balance_->ranges())) balance_.reset();  // there are more servers than can share the parameters
}

void RangeBalancing::round_done(TrainingState& state, std::int64_t steps, double seconds, bool is_disturbed) {
  if (!balance_ || !std::exchange(is_measured_, true)) return;
  steps_ += steps;
  seconds_ += seconds;
  is_disturbed_ = is_disturbed_ || is_disturbed;
  for (std::size_t i = 0; i < answer_seconds_.size(); ++i) answer_seconds_[i] += server_.answer_seconds()[i];
  if (steps_ < balance_->steps_until_next()) return;
  const bool moves = balance_->take(of_all(state.step));
  if (moves) server_.move_to(balance_->ranges(), state);
  if (moves || (!is_told_ && !balance_->seconds().empty())) tell(state.step, moves);
  steps_ = 0;
  seconds_ = 0;
  is_disturbed_ = false;
  std::ranges::fill(answer_seconds_, 0);
}

AnswerSeconds RangeBalancing::mine(Step step) const {
  if (setting_.hooks.answer_seconds) return setting_.hooks.answer_seconds(step, balance_->ranges());
  AnswerSeconds own{seconds_, answer_seconds_};
  own.step = is_disturbed_ ? -1 : own.step / static_cast<double>(steps_);
  for (double& each : own.ranges) each /= static_cast<double>(steps_);
  return own;
}

std::vector<AnswerSeconds> RangeBalancing::of_all(Step step) const {
  auto own = mine(step);
  own.ranges.push_back(own.step);
  const std::size_t count = own.ranges.size();
  std::vector<double> numbers(count * static_cast<std::size_t>(communicator_.size()));
  communicator_
      .all_gather(comm::ConstVector(own.ranges.data(), count, comm::DataType::float64),
                  comm::Vector(numbers.data(), numbers.size(), comm::DataType::float64))
      .wait();
  std::vector<AnswerSeconds> all;
  for (auto next = numbers.begin(); next != numbers.end(); next += static_cast<std::ptrdiff_t>(count))
    all.push_back(
        {next[static_cast<std::ptrdiff_t>(count) - 1], {next, next + static_cast<std::ptrdiff_t>(count) - 1}});
  return all;
}

void RangeBalancing::tell(Step step, bool moved) {
  is_told_ = true;
  if (communicator_.rank() != Rank(0)) return;
  records::RangesKnown event{step, moved, {}, balance_->seconds(), {}, moved ? balance_->went_back() : std::string()};
  for (const auto& range : balance_->ranges()) event.elements.push_back(static_cast<std::int64_t>(range.count()));
  for (const Rank rank : server_.cluster().servers) event.hosts.push_back(communicator_.host(rank));
  const auto slowest = std::ranges::max_element(event.element_seconds);
  const auto place = static_cast<std::size_t>(slowest - event.element_seconds.begin());
  if (!event.went_back.empty())
    log(Severity::info, "the servers' ranges are {} of the parameters again, as before the last move: {}",
        percent(event.elements), event.went_back);
  else if (moved)
    log(Severity::info,
        "the servers' ranges are now {} of the parameters: of a step, an element takes {:.3g} ns at the server on rank "
        "{} ({}), the median is {:.3g} ns",
        percent(event.elements), 1e9 * *slowest, server_.cluster().servers[place], event.hosts[place],
        1e9 * median(event.element_seconds));
  observer_.on(event);
}

}  // namespace distdl::train
