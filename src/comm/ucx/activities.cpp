// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/comm/ucx/activities.hpp>

namespace distdl::comm {

void Activities::remove(Activity& activity) noexcept {
  std::erase_if(under_way_, [&](const UnderWay& one) { return one.activity == &activity; });
}

bool Activities::contains(const Activity& activity) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const UnderWay& one) { return one.activity == &activity; });
}

void Activities::cancel() noexcept {
  for (const auto& one : std::exchange(under_way_, {})) one.activity->cancel();
}

bool Activities::is_stuck(const Activity& activity) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const UnderWay& one) { return one.activity == &activity && one.stuck; });
}

void Activities::set_stuck(const Activity& activity) {
  for (auto& one : under_way_) one.stuck |= one.activity == &activity;
}

const Activity* Activities::foremost() const {
  if (waiting_ || under_way_.empty()) return waiting_;
  return under_way_.front().activity;
}

const std::vector<Rank>& Activities::awaited_by(const Activity& activity) {
  awaited_.clear();
  activity.add_awaited(awaited_);
  for (const auto& one : under_way_)
    if (awaited_.empty()) one.activity->add_awaited(awaited_);
  return awaited_;
}

const std::vector<Rank>& Activities::awaited_by_any() {
  awaited_.clear();
  for (const auto& one : under_way_) one.activity->add_awaited(awaited_);
  return awaited_;
}

std::uint64_t Activities::steps() const {
  std::uint64_t sum = 0;
  for (const auto& one : under_way_) sum += one.activity->steps();
  return sum;
}

bool Activities::polls() const {
  return std::any_of(under_way_.begin(), under_way_.end(), [](const UnderWay& one) { return one.activity->polls(); });
}

}  // namespace distdl::comm
