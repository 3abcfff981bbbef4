// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/base/ids.hpp>
#include <distdl/comm/sum_tree.hpp>

namespace distdl::train {

/// The order in which a rank reads the microbatches of its steps. The microbatches of a step are numbered from 0;
/// numbers from the step's count on stand for microbatches of the next step. Threads that read samples call the
/// functions, so these must not depend on anything that changes.
class ReadingOrder {
 public:
  virtual ~ReadingOrder() = default;
  /// Returns the first microbatch that this rank reads in a step.
  virtual int first() const = 0;
  /// Returns the microbatch that this rank reads after microbatch `m` of the step that follows `step`.
  virtual std::int64_t after(Step step, int m) const = 0;
  /// Returns the microbatches that the devices of this rank divide among themselves, if `m` is one of them.
  virtual comm::LeafRange divided_with(int m) const = 0;
};

}  // namespace distdl::train
