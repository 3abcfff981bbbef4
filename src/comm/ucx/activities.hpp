// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/ucx/activity.hpp>

namespace distdl::comm {

/// The activities under way on this rank, in the order in which they began, and the ranks for which they wait.
class Activities {
 public:
  void add(Activity& activity) { under_way_.push_back({&activity}); }
  void remove(Activity& activity) noexcept;
  bool contains(const Activity& activity) const;
  std::size_t size() const { return under_way_.size(); }
  Activity& operator[](std::size_t index) const { return *under_way_[index].activity; }
  /// Cancels and removes all activities.
  void cancel() noexcept;

  /// Whether an activity no longer advances because a transfer failed. The loss behind the failure will be detected
  /// later.
  bool is_stuck(const Activity& activity) const;
  void set_stuck(const Activity& activity);

  /// Sets the activity for which this rank waits; null: none.
  void set_waiting(const Activity* activity) { waiting_ = activity; }
  bool is_waiting() const { return waiting_ != nullptr; }
  /// The activity for which this rank waits; else the oldest one; null if there is none.
  const Activity* foremost() const;
  /// The ranks for which an activity waits. If it waits for another activity, these are the ranks of that one. The
  /// result is valid until the next call of this or awaited_by_any().
  const std::vector<Rank>& awaited_by(const Activity& activity);
  const std::vector<Rank>& awaited_by_any();

  /// See Activity.
  std::uint64_t steps() const;
  bool polls() const;

 private:
  struct UnderWay {
    Activity* activity = nullptr;
    bool stuck = false;
  };
  std::vector<UnderWay> under_way_;
  const Activity* waiting_ = nullptr;
  std::vector<Rank> awaited_;  ///< kept for its memory
};

}  // namespace distdl::comm
