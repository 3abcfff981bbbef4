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

/// How a save ended, as this rank saw it.
struct SaveOutcome {
  Step step;
  std::uint64_t bytes = 0;     ///< of the checkpoint's files; 0 if it failed, or none were to be written
  double stall_seconds = 0;    ///< time that the training thread waited
  double durable_seconds = 0;  ///< from the start of its copy to the commit, or to the last copy elsewhere
  std::string error;           ///< empty: it is committed
  bool file_system = true;     ///< whether it was to go there, as Destination says
  std::string unkept = {};     ///< with levels: why the snapshot is not protected as Destination says; empty: it is
};

/// Where a snapshot goes in addition to its snapshot buffer.
struct Destination {
  bool file_system = true;
  Protection levels = {};
};

/// Saves while training continues. save() copies this rank's part into a snapshot buffer in shared memory and returns.
/// A writing thread per rank writes the checkpoint from there; these threads commit by Store's protocol. While a save
/// is still being written, the next one is skipped and counted: saves never queue.
///
/// There are two buffers. The newest sealed one stays readable, for other processes too (snapshot_memory.hpp), until
/// the next is sealed. With levels there are three or four: the newest buffer with a partner's copy and the newest with
/// parity stay too, since copies and parity are useless without them.
///
/// A failed write does not stop training: it is logged, and outcomes() reports it. Errors that end a run (another run
/// took the folder, a lost peer) are thrown by the next save(), fence() or wait(), the same on all ranks: StorageError
/// with the code of the cause; ExitCode::config for values that are not finite.
/// All functions are for the training thread; collective ones are called by all ranks alike.
class Saver {
 public:
  struct Setup {
    std::string run;            ///< names the run alike in all its processes and restarts
    bool finite = false;        ///< never save floating point values that are infinite or not a number
    bool keep_buffers = false;  ///< leave the buffers in memory when this ends without close(), for a restart
    std::optional<Levels::Setup> levels = {};  ///< else Destination::levels has no effect
  };

  /// `training` must outlive the Saver. `writing`: the group of the writing threads; null in mode "sync". The writing
  /// thread uses and destroys it. Its waits must be bounded, since the end of a Saver waits for it. It may outlive the
  /// Saver if a file system hangs. `store` has been taken; the Saver keeps a copy. Not collective.
  Saver(const Store& store, Group& training, std::unique_ptr<Group> writing, Setup setup);
  /// Gives up what is under way. That takes seconds at most, even if the file system hangs: the writing thread is then
  /// detached and keeps what it needs.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Allocates and touches the memory for saves of these slices, so that the first save is not slower. Removes the
  /// buffers that dead processes of this run and rank have left; restore from them before.
  void prepare(std::span<const Slice> slices, const State& state);
  /// Collective. Begins a save; false if it was skipped. The tensors may change afterwards, in mode "lazy" only after
  /// fence(). The span itself is not needed after the call. In mode "sync" it returns after the commit.
  bool save(Step step, std::span<const Slice> slices, const State& state, const Destination& destination = {});
  /// Collective. Waits until the copy that the last save() began is made. Free if there is none.
  void fence();
  /// Collective. Saves at the end of a run: never skips, waits for the commit, and throws if the save failed.
  SaveOutcome save_and_wait(Step step, std::span<const Slice> slices, const State& state);
  /// Collective. Waits until nothing is under way, for Options::timeout_seconds at most. Throws StorageError if the
  /// last save failed. The error of a timeout tells what the save was doing.
  void wait();
  /// The saves that have ended since the last call. Never waits.
  std::vector<SaveOutcome> outcomes();
  /// Whether something is being copied or written.
  bool is_busy() const;
  std::int64_t skipped() const noexcept;
  /// Name of the newest sealed buffer; empty if there is none or it lies in private memory.
  std::string newest_buffer() const;
  /// Collective, after wait(): ends the writing thread. Removes the buffers and the copies of the levels.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::checkpoint
