// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/kernels/backend.hpp>

namespace distdl::train {

/// An error that is made on purpose, for tests and drills: one bit of a rank's memory is flipped.
struct BitFlip {
  enum class Where {
    parameters,
    gradients,  ///< in the memory of the rank's own ones, before they are summed
    results     ///< in all gradients that the rank computes, also to check others
  };
  Where where = Where::parameters;
  Rank rank;
  Step step;               ///< before the step that follows so many
  std::int64_t steps = 1;  ///< in so many steps in a row
  bool is_due(Rank self, Step now) const { return self == rank && now >= step && now.value < step.value + steps; }
};

/// "parameters:RANK:STEP" or "results:RANK:STEP:STEPS". Throws ConfigError.
std::optional<BitFlip> bit_flip_from(const std::optional<std::string>& text);

/// Flips a low bit of a float in the backend's memory.
void flip_bit(kernels::Backend& backend, float* value);

}  // namespace distdl::train
