// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {

/// The buffers that one rank fills in turn, and their memory. The newest buffer stays as it is until the next one is
/// sealed. So do buffers with a partner's copy or parity, since these are useless without the buffer. Not thread-safe.
class BufferRotation {
 public:
  /// `run`: its buffers are kept when others are removed to make room. `memory`: the buffers' names contain it; equal
  /// to `run` unless a test simulates nodes. `levels`: the kinds of copies that will be made; nothing without levels.
  BufferRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels);

  /// Takes and touches memory for as many buffers as will be in use, so that the first saves are no slower. Throws
  /// StorageError if there is none.
  void prepare(std::size_t bytes);
  /// Chooses the buffer to fill next, with room for so many bytes: shared memory, or, with a warning, private memory.
  /// Throws StorageError if there is neither; the choice is made all the same.
  void take_next(std::size_t bytes);
  /// The buffer that was chosen last, and found room.
  SnapshotMemory& current() { return buffers_[current_].value(); }
  /// Makes the current buffer, which has been filled and sealed, the newest one.
  void sealed();
  /// Notes that the newest buffer has copies or parity elsewhere, and that older ones of the same kind are gone.
  void kept_elsewhere(const Protection& how);
  /// Name of the newest buffer; empty if there is none or it lies in private memory.
  std::string newest_name() const;
  /// Removes the names; processes that have mapped the memory keep it.
  void remove() noexcept;
  /// Unmaps the memory.
  void release() noexcept;

 private:
  std::size_t usual() const;
  void make_room(std::optional<SnapshotMemory>& buffer, std::size_t bytes);

  std::string run_, memory_;
  int rank_;
  std::optional<Protection> levels_;
  std::array<std::optional<SnapshotMemory>, 4> buffers_;
  std::size_t current_ = 0;
  std::optional<std::size_t> newest_, with_partner_, with_parity_;
};

}  // namespace distdl::checkpoint
