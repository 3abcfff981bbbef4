// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/comm/ucx/activity.hpp>

namespace distdl::comm {

/// The activities that are under way on this rank, in the order in which they began, and what they wait for.
class Activities {
 public:
  void add(Activity& activity) { under_way_.push_back({&activity}); }
  void remove(Activity& activity) noexcept;
  bool contains(const Activity& activity) const;
  std::size_t size() const { return under_way_.size(); }
  Activity& operator[](std::size_t index) const { return *under_way_[index].activity; }
  /// Cancels and removes all.
  void cancel() noexcept;

  /// Of an activity that does not advance any more, because a transfer broke; the loss behind it will come to light.
  bool is_stuck(const Activity& activity) const;
  void set_stuck(const Activity& activity);

  /// The one that this rank waits for; null: for none.
  void set_waiting(const Activity* activity) { waiting_ = activity; }
  /// What this rank waits for; else what has been under way for longest; null if nothing is.
  const Activity* foremost() const;
  /// Whom an activity waits for; where it waits for another activity, whom that waits for. The result is valid until
  /// the next call of this or awaited_by_any().
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
