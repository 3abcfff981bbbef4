// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/commit/retention.hpp>

namespace distdl::checkpoint {

/// Deletes checkpoints that are no longer needed. It uses a thread of the lowest priority, for which training never
/// waits. All calls come from one thread.
class Collector {
 public:
  /// `files` must outlive the collector.
  Collector(FileSystem& files, Path root, Rule rule);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  /// Waits at most 30 s for the requested deletions, then stops them. The next run deletes the rest.
  ~Collector();

  /// Reports a step that was read or written in full, so that it counts as verified.
  void verified(Step step);
  /// Reports a step that was saved, and requests the deletion of checkpoints that are no longer kept. Returns at once.
  /// Of several requests only the last one counts. Failures are logged, and the run continues.
  void saved(Step step);
  /// Keeps the newest checkpoint up to this step.
  void keep_newest_until(Step step);
  /// Frees space: deletes checkpoints, oldest first and at most `most` of them, until `enough` returns true. The newest
  /// verified checkpoint stays, as do the one that was saved or verified last, tagged ones and those of
  /// Rule::keep_every. Each deletion is logged. Earlier requests are served first. The argument of `enough` is the
  /// number of bytes that deletions would free in addition: if deleting all candidates would not suffice, nothing is
  /// deleted.
  ///
  /// Runs in the caller's thread and returns the number of deleted checkpoints. Throws StorageError.
  int make_room(const std::function<bool(std::uint64_t)>& enough, int most);
  /// Waits until there is nothing left to do. Returns false if that takes longer than `patience`.
  bool settle(Clock::duration patience);
  /// Gives up all requests, for good: nothing more is deleted. Waits at most 5 s for a system call that is under way.
  void stop();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace distdl::checkpoint
