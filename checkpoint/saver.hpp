// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::checkpoint {

/// How a save ended, as this rank saw it.
struct SaveOutcome {
  Step step;
  std::uint64_t bytes = 0;     ///< of the checkpoint's files; 0 if it failed, or none were to be written
  double stall_seconds = 0;    ///< that the training thread waited, for whatever
  double durable_seconds = 0;  ///< from the start of its copy to the commit, or to the last copy elsewhere
  std::string error;           ///< empty: it is committed
  bool file_system = true;     ///< whether it was to go there, as Destination says
  std::string unkept = {};     ///< with levels: why the snapshot is not kept as Destination says; empty: it is
};

/// Where a snapshot goes beside the buffer it was copied into.
struct Destination {
  bool file_system = true;
  Protection levels = {};
};

/// Saves while training goes on. save() copies this rank's part into one of two buffers in shared memory and returns; a
/// thread of its own writes from there and commits by Store's protocol, among the same threads of the other ranks. A
/// save that finds the previous one still being written is skipped and counted: nothing ever queues. The newest sealed
/// buffer stays readable, for other processes too (snapshot_memory.hpp), until the next is sealed. With levels there
/// are three or four buffers: the newest with a partner's copy and the newest with parity stay too, since those
/// elsewhere are of use only together with them.
///
/// A failed write does not stop training: it is logged, and told by outcomes(). But what ends a run (another run took
/// the folder, a lost peer) is thrown by the next save(), fence() or wait(), the same on all ranks (as
/// StorageError with the code of the cause; ExitCode::config for values that are not finite).
/// All functions are for the training thread; collective ones are called by all ranks alike.
class Saver {
 public:
  /// Makes the group of the writing threads, in that thread, where it is used and destroyed too. Collective. Must bound
  /// its own waits: the end of a Saver waits for it. The group may outlive the Saver if a file system hangs.
  using MakeGroup = std::function<std::unique_ptr<Group>()>;

  struct Setup {
    std::string run;            ///< names the run alike in all its processes and restarts
    bool finite = false;        ///< never save floating point values that are infinite or not a number
    bool keep_buffers = false;  ///< leave the buffers in memory when this ends without close(), for a restart
    std::optional<Levels::Setup> levels = {};  ///< else Destination::levels has no effect
  };

  /// The group must outlive it. Of the store, which has been taken, it keeps a copy. Not collective.
  Saver(const Store& store, Group& training, MakeGroup writing, Setup setup);
  /// Gives up what is under way. Where the file system hangs, that takes seconds at most: the writing thread is then
  /// left alone with what it needs.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Takes and touches the memory that saves of these slices will need, so that the first one is no slower. Removes
  /// what dead processes of this run and rank left: restore from that before.
  void prepare(std::span<const Slice> slices, const State& state);
  /// Collective. Begins a save; false if it was skipped. Slices may change afterwards; in mode "lazy" only after
  /// fence(), and the memory of `slices` itself may go at once. In mode "sync" it returns after the commit.
  bool save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination = {});
  /// Collective. Waits until the copy that the last save() began is made. Free if there is none.
  void fence();
  /// Collective. Never skips, waits for the commit, and throws if there was none: for the end of a run.
  SaveOutcome save_and_wait(Step step, std::span<const Slice> slices, const State& state);
  /// Collective. Waits until nothing is under way, for Options::timeout_seconds at most. Throws StorageError if the
  /// save that began last failed. The error of a timeout says what the save was doing.
  void wait();
  /// What ended since the last call. Never waits.
  std::vector<SaveOutcome> outcomes();
  /// Whether something is being copied or written.
  bool is_busy() const;
  std::int64_t skipped() const noexcept;
  /// Name of the newest sealed buffer; empty if there is none, or it has none (see SnapshotMemory::create_private).
  std::string newest_buffer() const;
  /// Collective, after wait(): ends the writing thread and removes the buffers, and what the levels keep.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the writing thread
};

}  // namespace distdl::checkpoint
