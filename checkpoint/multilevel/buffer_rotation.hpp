// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/checkpoint/protection.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {

/// The buffers that one rank fills in turn, and their memory. The newest buffer is unchanged until the next one is
/// sealed. Buffers with copies of a level in memory (Level::in_memory) are also kept, because a partner's copy or
/// parity is useless without them. Not thread-safe.
class BufferRotation {
 public:
  /// `run`: buffers of this run are kept when others are removed to free memory. `memory`: a part of the buffers'
  /// names; equal to `run` unless a test simulates nodes. `levels`: the kinds of copies that will be made; empty
  /// without levels.
  BufferRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels);

  ~BufferRotation() { await_preparation(); }
  BufferRotation(const BufferRotation&) = delete;
  BufferRotation& operator=(const BufferRotation&) = delete;

  /// Allocates and touches memory for as many buffers as will be in use, beside the caller, so that the first saves are
  /// not slower. Where there are no threads it does so at once, and throws StorageError if there is no memory.
  void prepare(std::size_t bytes);
  /// Waits until they have it.
  void await_preparation() noexcept;
  /// Chooses the next buffer to fill, with space for so many bytes. The memory is shared, or private with a warning.
  /// Throws StorageError if neither is available; the buffer is chosen all the same.
  void take_next(std::size_t bytes);
  /// The buffer that was chosen last and has memory.
  SnapshotMemory& current() { return buffers_[current_].value(); }
  /// Makes the current buffer, which has been filled and sealed, the newest one.
  void sealed();
  /// Reports that the newest buffer has copies at these levels, and that older ones of these levels are removed.
  void kept_elsewhere(const Protection& how);
  /// Name of the newest buffer. Empty if there is none or it is in private memory.
  std::string newest_name() const;
  /// Removes the names of the buffers. Processes that have mapped the memory keep it.
  void remove() noexcept;
  /// Unmaps the memory.
  void release() noexcept;

 private:
  void make_room(std::optional<SnapshotMemory>& buffer, std::size_t bytes);

  std::string run_, memory_;
  int rank_;
  std::optional<Protection> levels_;
  std::vector<std::optional<SnapshotMemory>> buffers_;
  std::size_t current_ = 0;
  std::optional<std::size_t> newest_;
  std::map<const Level*, std::size_t> kept_;  ///< the buffer with the newest copies of each level in memory
  std::shared_future<void> first_;            ///< makes the first buffer; invalid: none is under way
  std::future<void> preparation_;             ///< makes all others, then
};

}  // namespace distdl::checkpoint
