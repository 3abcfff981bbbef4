// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::checkpoint {

/// The result of a save, as this rank saw it.
struct SaveOutcome {
  Step step;
  std::uint64_t bytes = 0;     ///< bytes of the checkpoint's files; 0 if the save failed or writes no files
  double stall_seconds = 0;    ///< time that the training thread waited
  double durable_seconds = 0;  ///< time from the start of the copy to the commit, or to the last copy elsewhere
  std::string error;           ///< empty: the save succeeded
  bool file_system = true;     ///< whether the save writes to the file system, see Destination
  std::string unkept = {};     ///< with levels: why the snapshot is not protected as Destination asks; empty: it is
  /// Where the snapshot of all ranks is besides the file system: "memory", "partner", "parity", "disk".
  std::vector<std::string> levels = {};
};

/// The places where a snapshot is kept, in addition to its buffer.
struct Destination {
  bool file_system = true;
  Protection levels = {};
};

/// Saves while training continues. save() copies this rank's part into a snapshot buffer in shared memory and returns.
/// A writing thread per rank writes the checkpoint from the buffer; these threads commit by Store's protocol. While a
/// save is being written, the next one is skipped and counted: saves never queue.
///
/// There are two buffers. The newest sealed one stays readable until the next one is sealed, also for other processes
/// (snapshot_memory.hpp). With levels there are three or four buffers: those whose snapshots have a partner's copy or
/// parity are also kept, because copies and parity are useless without them.
///
/// A failed write does not stop training: it is logged, and outcomes() reports it. Errors that end a run (another run
/// took the folder, a lost peer) are thrown by the next save(), fence() or wait(), the same on all ranks. They are
/// StorageError with the code of the cause, or with ExitCode::config for values that are not finite.
///
/// All functions are called by the training thread. Collective ones are called by all ranks.
class Saver {
 public:
  struct Setup {
    std::string run;      ///< name of the run, equal in all its processes and restarts
    bool finite = false;  ///< refuse floating point values that are infinite or not a number
    /// Keep the buffers in memory for a restart if this object is destroyed without close().
    bool keep_buffers = false;
    std::optional<Levels::Setup> levels = {};  ///< empty: Destination::levels has no effect
  };

  /// `training` must outlive the Saver. `writing` is the group of the writing threads; it is null in mode "sync". The
  /// writing thread uses and destroys it. Its waits must be bounded, because the destructor waits for the thread. It
  /// may outlive the Saver if a file system hangs. `store` must have been taken; the Saver keeps a copy. Not
  /// collective.
  Saver(const Store& store, Group& training, std::unique_ptr<Group> writing, Setup setup);
  /// Cancels the current save, within seconds even if the file system hangs. The writing thread is then detached and
  /// keeps what it needs.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Allocates and touches the memory for saves of these slices, beside the caller, so that the first save is not
  /// slower. Their bytes are not read. Removes buffers that dead processes of this run and rank have left, so they must
  /// be restored before.
  void prepare(std::span<const Slice> slices, const State& state);
  /// Collective. Begins a save. Returns false if it was skipped. The tensors may change afterwards; in mode "lazy" only
  /// after await_copy(). The span itself is not needed after the call. In mode "sync" it returns after the commit.
  bool save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination = {});
  /// Waits for this rank's copy that the last save() began. Returns at once if there is none. Not collective, so that
  /// other threads of the ranks may communicate.
  void await_copy();
  /// Collective. Waits for the copies of all ranks, which are then written. Returns at once if there is none.
  void fence();
  /// Collective. Saves at the end of a run. It never skips, waits for the commit, and throws if the save failed.
  SaveOutcome save_and_wait(Step step, std::span<const Slice> slices, const State& state);
  /// Collective. Waits until no save is under way, at most for Options::timeout_seconds. Throws StorageError if the
  /// last save failed. The error of a timeout names the activity of the save.
  void wait();
  /// The saves that have ended since the last call. Does not wait.
  std::vector<SaveOutcome> outcomes();
  /// Whether a save is being copied or written.
  bool is_busy() const;
  std::int64_t skipped() const noexcept;
  /// Name of the newest sealed buffer. Empty if there is none or it is in private memory.
  std::string newest_buffer() const;
  /// Collective, after wait(). Ends the writing thread, and removes the buffers and the copies of the levels.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::checkpoint
