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

// A snapshot buffer is contiguous memory with one rank's part of one step. It contains no addresses, so it can be
// written to disk, mapped by another process or sent to another node without changes. See docs/checkpoint-format.md,
// "Saving beside training".
namespace distdl::checkpoint {

/// Identifies the snapshot in a buffer.
struct SnapshotLabel {
  std::string run;  ///< name of the run, equal in all its processes and restarts; at most 63 bytes
  int rank = 0, world = 1;
  Step step;
  std::uint64_t sequence = 0;  ///< number of the snapshot within a start; the greater one is newer
  Start start = {};
  bool operator==(const SnapshotLabel&) const = default;
};
/// A key in the state of a buffer with parity. A save of a state with this key is refused.
inline constexpr const char* kParityKey = "distdl.parity";
/// "rank 1 of 3, step 40 of start 2", for messages.
std::string text_of(const SnapshotLabel& label);
/// Sort key: the snapshot with the greater one is newer. The start counts before the step, because a later start may
/// have resumed from an earlier step; steps after the resume point are discarded.
std::pair<Start, Step> moment_of(const SnapshotLabel& label);

/// Options of a copy into a buffer.
struct CopyPlan {
  std::size_t threads = 1;
  bool finite = false;  ///< refuse floating point values that are infinite or not a number
};

/// The slices of one rank with the checksums of the copy. The slices point into the buffer.
struct Snapshot {
  SnapshotLabel label;
  std::vector<Slice> slices;
  State state;
  std::size_t bytes = 0;  ///< bytes of the buffer to send, from its start
};

/// Bytes that a buffer needs for these slices and this state.
std::size_t buffer_bytes(std::span<const Slice> slices, const State& state);

/// Copies slices and state into `buffer`, computes a checksum of each 4 MiB, and seals the buffer. `buffer` begins at a
/// page and has at least buffer_bytes(). It counts as empty until it is sealed, and if this throws. Throws StorageError
/// (incompatible) for slices that cannot be saved, and ConfigError for values that are not finite.
void fill_buffer(std::span<std::byte> buffer, const SnapshotLabel& label, std::span<const Slice> slices,
                 const State& state, const CopyPlan& how = {});
/// Marks a buffer as empty.
void empty_buffer(std::span<std::byte> buffer) noexcept;

/// Parses a buffer whose bytes may be anything. Checks the label, names, boxes and the list of checksums, but not the
/// tensors' bytes, see verify(). The result points into `buffer`. Throws StorageError: incomplete if the buffer is
/// empty or was never sealed; corrupt; incompatible for another format.
Snapshot open_snapshot(std::span<const std::byte> buffer);
/// Compares the tensors' bytes with the checksums. Throws StorageError (corrupt) that names tensor, block and
/// checksums. A reader in another process must make sure that the buffer is not overwritten during the call, or read
/// the label again.
void verify(const Snapshot& snapshot, std::size_t threads = 1);

}  // namespace distdl::checkpoint
