// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/snapshot_memory.hpp>

namespace distdl::checkpoint {

/// The buffers that one rank fills in turn: which is next, and the memory for it. The newest one stays as it is until
/// the next is sealed, and so do those that copies or parity elsewhere go with, since these are of use only together
/// with their buffer. For one thread at a time.
class BufferRotation {
 public:
  /// `run`: whose buffers are spared where room has to be made; `memory`: what the buffers are named after, as `run`
  /// unless a test simulates nodes. `levels`: the kinds of copies that are made some time; nothing if there are no
  /// levels.
  BufferRotation(std::string run, std::string memory, int rank, const std::optional<Protection>& levels);

  /// Takes and touches memory for as many buffers as will be in use, so that the first saves are no slower. Throws
  /// StorageError if there is none.
  void prepare(std::size_t bytes);
  /// Chooses the buffer to fill next, with room for so many bytes: shared memory, or, with a warning, private memory.
  /// Throws StorageError if there is neither; the choice is made all the same.
  void take_next(std::size_t bytes);
  /// The buffer that was chosen last, and found room.
  SnapshotMemory& current() { return buffers_[current_].value(); }
  /// It is filled and sealed: from now on it is the newest.
  void sealed();
  /// Copies or parity of it lie elsewhere now, and those of older ones of the same kind are gone.
  void kept_elsewhere(const Protection& how);
  /// Of the newest; empty if there is none, or it has none.
  std::string newest_name() const;
  /// Removes the names; those who have the memory open keep it.
  void remove() noexcept;
  /// Lets go of the memory.
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
