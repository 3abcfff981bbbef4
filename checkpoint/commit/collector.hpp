// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/commit/retention.hpp>

namespace distdl::checkpoint {

/// Deletes checkpoints that are no longer needed in a thread of the lowest priority, which training never waits for.
/// For one thread.
class Collector {
 public:
  /// `files` must outlive the collector.
  Collector(FileSystem& files, Path root, Rule rule);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  /// Waits for what has been asked for, 30 s at most; then breaks it off: what is left of it the next run does.
  ~Collector();

  /// A step that has been read or written in full, so that it counts.
  void verified(Step step);
  /// A step was saved: delete what does not stay any more. Returns at once; of several requests the last counts.
  /// Failing is logged: the run goes on.
  void saved(Step step);
  /// Where room is short: deletes checkpoints, the oldest first and no more than `most`, until there is `enough`. The
  /// newest verified one stays, as do the one that was saved or verified last, tagged ones and those of
  /// Rule::keep_every. Says so in the log. What was asked for before comes first. `enough` is told bytes that would be
  /// free besides: where all that may go is not enough, nothing goes.
  /// In the caller's thread; returns how many went. Throws StorageError.
  int make_room(const std::function<bool(std::uint64_t)>& enough, int most);
  /// Waits until nothing is left to do. False if it takes longer.
  bool settle(Clock::duration patience);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace distdl::checkpoint
