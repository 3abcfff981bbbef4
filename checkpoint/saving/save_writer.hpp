// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/multilevel/buffer_rotation.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/checkpoint/saving/save_activity.hpp>
#include <distdl/checkpoint/saving/save_control.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>

namespace distdl::checkpoint {

/// The current save.
struct PendingSave {
  SnapshotLabel label;
  Destination destination;
  bool is_last = false;  ///< training waits for its commit
  Stopwatch since_begin = {};
  std::optional<Failure> copy_error = {};
  std::string unkept = {};               ///< see SaveOutcome
  std::vector<std::string> levels = {};  ///< likewise
  std::vector<Slice> slices = {};        ///< for a lazy copy
  State state = {};                      ///< for a lazy copy
};

/// The data that the training thread and the writing thread of a rank share. The phase of SaveControl decides which of
/// them may use `buffers` and `save`.
struct SharedSave {
  SharedSave(Store the_store, int the_rank, Saver::Setup the_setup);
  /// Fills the current buffer. A failure is stored in save.copy_error.
  void copy(std::span<const Slice> slices, const State& state);
  Clock::duration timeout() const;

  Store store;
  const int rank;
  const Saver::Setup setup;
  BufferRotation buffers;
  PendingSave save;
  SaveActivity activity;
  SaveControl control;
};

/// The writing thread of a rank: makes lazy copies, protects snapshots and writes checkpoints.
class SaveWriter {
 public:
  SaveWriter(std::shared_ptr<SharedSave> shared, std::unique_ptr<Group> group);
  /// Joins the thread. Returns false if a system call of the thread does not return; the thread is then detached and
  /// keeps `shared`. A second call does nothing.
  bool end(SaveControl::End how);

 private:
  std::shared_ptr<SharedSave> shared_;
  std::thread thread_;
};

}  // namespace distdl::checkpoint
