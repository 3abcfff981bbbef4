// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/group.hpp>

// The current activity of a save, for the error of a wait that took too long.
namespace distdl::checkpoint {

inline constexpr const char* kBegins = "begins";
inline constexpr const char* kCopies = "copies its part";
inline constexpr const char* kProtects = "copies its snapshot to other nodes or disks";
inline constexpr const char* kWrites = "writes or checks files";
inline constexpr const char* kWaits = "waits for the other ranks";

/// The activity of one rank. The thread that works on the save sets it, and the thread that waits reads it.
class SaveActivity {
 public:
  void set(const char* what) { what_ = what; }
  /// Sets the text and returns the previous one.
  const char* exchange(const char* what) { return what_.exchange(what); }
  std::string text() const { return what_.load(); }

 private:
  std::atomic<const char*> what_{kBegins};
};

/// Records when a save waits for other ranks rather than for its own disk.
class WatchedGroup final : public Group {
 public:
  /// Both arguments must outlive this object.
  WatchedGroup(Group& group, SaveActivity& activity) : group_(group), activity_(activity) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::vector<std::string> all_gather(const std::string& mine) override;
  void exchange_buffers(std::span<const Outgoing> out, std::span<const Incoming> in) override {
    group_.exchange_buffers(out, in);
  }
  void cancel() noexcept override { group_.cancel(); }

 private:
  Group& group_;
  SaveActivity& activity_;
};

/// The ranks for which a save waits, with their activities, such as "rank 1, which writes or checks files".
/// `activities` has one text per rank; an empty one means that the rank has finished.
std::string who_is_late(const std::vector<std::string>& activities);

}  // namespace distdl::checkpoint
