// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/checkpoint/summary.hpp>

// Compares two checkpoints.
namespace distdl::checkpoint {

/// A tensor of both checkpoints with equal type and shape, but different bytes.
struct ChangedTensor {
  TensorEntry entry;
  std::uint64_t elements = 0;
  std::uint64_t different = 0;   ///< elements whose bytes differ
  std::uint64_t not_finite = 0;  ///< different elements that are NaN or infinite in one of the checkpoints
  double absolute = 0;           ///< largest |a - b| over the finite elements
  double relative = 0;           ///< largest |a - b| / max(|a|, |b|) over the finite elements: 0 .. 2
};

/// A tensor of both checkpoints with different types or shapes.
struct ReshapedTensor {
  TensorEntry before, after;
};

struct Difference {
  std::vector<TensorEntry> removed, added;  ///< only in the first checkpoint; only in the second one
  std::vector<ReshapedTensor> reshaped;
  std::vector<ChangedTensor> changed;
  std::size_t equal = 0;                                               ///< tensors with the same bytes
  std::vector<std::string> state_removed, state_added, state_changed;  ///< keys of the state
  bool none() const {
    return removed.empty() && added.empty() && reshaped.empty() && changed.empty() && state_removed.empty() &&
           state_added.empty() && state_changed.empty();
  }
};

/// Reads both checkpoints in pieces and verifies every block. Throws StorageError (corrupt, incomplete).
Difference compare(const Summary& first, const Summary& second);

}  // namespace distdl::checkpoint
