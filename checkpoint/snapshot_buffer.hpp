// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>

// A snapshot buffer is contiguous memory with one rank's part of one step. It holds no addresses, so that it can be
// written to disk, mapped by another process or sent to another node as it is. See docs/checkpoint-format.md,
// "Saving beside training".
namespace distdl::checkpoint {

/// Whose snapshot a buffer holds, and which.
struct SnapshotLabel {
  std::string run;  ///< names the run, alike in all its processes and restarts; at most 63 bytes
  int rank = 0, world = 1;
  Step step;
  std::uint64_t sequence = 0;  ///< number of the snapshot within a start; the higher one is newer
  Start start = {};
  bool operator==(const SnapshotLabel&) const = default;
};
/// In the state of a buffer that holds parity; a save of a state with this key is refused.
inline constexpr const char* kParityKey = "distdl.parity";
/// "rank 1 of 3, step 40 of start 2", for messages.
std::string text_of(const SnapshotLabel& label);
/// Sort key: the snapshot with the greater one is newer. The start counts before the step, since a later start may have
/// resumed from an earlier step; steps after the resume point are discarded.
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

/// Copies slices and state into `buffer`, computes a checksum of each 4 MiB, and seals the buffer. `buffer` begins on a
/// page and has at least buffer_bytes(). Until it is sealed, and if this throws, it counts as empty. Throws
/// StorageError (incompatible) for slices that cannot be saved, ConfigError for values that are not finite.
void fill_buffer(std::span<std::byte> buffer, const SnapshotLabel& label, std::span<const Slice> slices,
                 const State& state, const CopyPlan& how = {});
/// Marks a buffer as empty.
void empty_buffer(std::span<std::byte> buffer) noexcept;

/// Parses a buffer whose bytes may be anything. Checks label, names, boxes and the list of checksums, but not the
/// tensors' bytes, see verify(). The result points into `buffer`. Throws StorageError: incomplete if it is
/// empty or was never sealed; corrupt; incompatible for another format.
Snapshot open_snapshot(std::span<const std::byte> buffer);
/// Compares the tensors' bytes with the checksums. Throws StorageError (corrupt) naming tensor, block and checksums. A
/// reader in another process must exclude that the buffer is overwritten meanwhile, or read the label again.
void verify(const Snapshot& snapshot, std::size_t threads = 1);

}  // namespace distdl::checkpoint
