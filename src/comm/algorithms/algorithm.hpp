// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <distdl/comm/schedule/builder.hpp>
#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {

/// Adds the steps of one rank to a schedule.
using Generator = void (*)(ScheduleBuilder&);

/// The shared memory of a node's ranks that an algorithm uses.
enum class SharedUse : std::uint8_t {
  none,                    ///< none: all data are sent in messages
  areas,                   ///< Space::shared; operands may be anywhere in the host's memory
  operands,                ///< the inputs and outputs, which must be in shared memory
  operands_unless_staged,  ///< the inputs and outputs, or the areas if Choice::staged is set
};

/// An algorithm for one or several collectives. Each is defined in its own file; registry.cpp lists them all.
struct Algorithm {
  std::string_view name;  ///< name in tools and logs
  SharedUse shared_use = SharedUse::none;
  bool tries_segments = true;  ///< whether several values of Choice::segment are worth trying
  bool reorders_sums = false;  ///< its sums are used only if any order is allowed
  /// Returns null if the algorithm cannot implement the choice, which makes this the test whether a choice is possible.
  /// It is cheap, pure, and gives the same result on all ranks.
  Generator (*generator)(const Problem& problem, const Choice& choice);
  /// For two or more ranks.
  double (*predicted_seconds)(const CostModel& model);
  /// The algorithm with the same result for operands that are not in shared memory; for SharedUse::operands only.
  const Algorithm* apart = nullptr;
};

}  // namespace distdl::comm
