// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/store.hpp>

// A buffer: one rank's part of one step in a stretch of memory, for the disk, another process, or another node. The
// bytes hold no addresses, so a buffer may be sent and received as it is: docs/checkpoint-format.md, "Slots".
namespace distdl::checkpoint {

/// Whose snapshot a buffer holds, and which.
struct SnapshotLabel {
  std::string run;  ///< names the run, alike in all its processes and restarts; at most 63 bytes
  int rank = 0, world = 1;
  Step step;
  std::uint64_t sequence = 0;  ///< counts a rank's snapshots: of two of a start the one with the higher number is newer
  Start start = {};
  bool operator==(const SnapshotLabel&) const = default;
};
/// In the state of a buffer that holds parity; a save of a state with this key is refused.
inline constexpr const char* kParityKey = "distdl.parity";
/// "rank 1 of 3, step 40 of start 2", for messages.
std::string text_of(const SnapshotLabel& label);
/// Snapshots of a greater one are newer: a later start may have gone back, and further steps are then of a past that
/// did not happen.
std::pair<Start, Step> moment_of(const SnapshotLabel& label);

/// How the bytes get into a buffer.
struct CopyPlan {
  std::size_t threads = 1;
  bool finite = false;  ///< refuse floating point values that are infinite or not a number
};

/// What one rank saves, with the checksums that were taken when it was copied. The slices point into the buffer.
struct Snapshot {
  SnapshotLabel label;
  std::vector<Slice> slices;
  State state;
  std::size_t bytes = 0;  ///< of the buffer from its start: these are to be sent
};

/// Bytes that a buffer needs for these.
std::size_t buffer_bytes(std::span<const Slice> slices, const State& state);

/// Copies slices and state into `buffer`, a page-aligned stretch of at least buffer_bytes(), taking the checksum of
/// each 4 MiB on the way, and seals it. Until then, and if this throws, the buffer counts as empty. Throws StorageError
/// (incompatible) for slices that cannot be saved, ConfigError for values that are not finite.
void fill_buffer(std::span<std::byte> buffer, const SnapshotLabel& label, std::span<const Slice> slices,
                 const State& state, const CopyPlan& plan = {});
/// What a buffer holds lies no longer.
void empty_buffer(std::span<std::byte> buffer) noexcept;

/// Looks into a buffer, trusting nothing but the process's right to read the bytes: label, names, boxes and checksums
/// are checked, the tensors' bytes not yet. The result points into `buffer`. Throws StorageError: incomplete if it is
/// empty or was never sealed; corrupt; incompatible for another format.
Snapshot open_snapshot(std::span<const std::byte> buffer);
/// Whether the bytes are those that were copied. Throws StorageError (corrupt) naming tensor, block and checksums. A
/// reader in another process must know that the buffer is not overwritten meanwhile, or look at the label again.
void verify(const Snapshot& snapshot, std::size_t threads = 1);

}  // namespace distdl::checkpoint
