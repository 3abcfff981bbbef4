// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <distdl/comm/schedule/builder.hpp>
#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {

/// Adds the steps of one rank.
using Generator = void (*)(ScheduleBuilder&);

/// What of the shared memory of a node's ranks an algorithm works on.
enum class SharedUse : std::uint8_t {
  none,                    ///< nothing: all goes by messages
  areas,                   ///< Space::shared: operands may lie anywhere in the host's memory
  operands,                ///< the inputs and outputs, which must lie in shared memory
  operands_unless_staged,  ///< the same, but the areas where Choice::staged
};

/// A way to do one or several collectives. Each is defined in a file of its own; registry.cpp lists them all.
struct Algorithm {
  std::string_view name;  ///< as tools and logs know it
  SharedUse shared_use = SharedUse::none;
  bool tries_segments = true;  ///< whether it is worth trying with several values of Choice::segment
  bool reorders_sums = false;  ///< its sums are proposed only where any order will do
  /// Null where it cannot do that: the test whether a choice is possible. Cheap, pure, and the same on all ranks.
  Generator (*generator)(const Problem& problem, const Choice& choice);
  /// Of two ranks or more.
  double (*predicted_seconds)(const CostModel& model);
  /// What does the same where operands turn out not to be shared memory; for SharedUse::operands only.
  const Algorithm* apart = nullptr;
};

}  // namespace distdl::comm
