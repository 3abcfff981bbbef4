// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// The elements of a range in a state, which is so many steps further than the state of the round's beginning.
struct KeptRange {
  int range = 0, ranges = 1;
  const TrainingState& state;
  std::int64_t steps = 0, updates = 0;
};
/// Keeps it for the next start, should this one break off. Called in the server's thread, or in the caller's.
using KeepRange = std::function<void(const KeptRange&)>;

}  // namespace distdl::train
