// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// The numbers by which agents decide. All agents of a launch must have the same.
struct Rules {
  std::size_t wanted = 1;     ///< nodes that should run ranks, also more than the launch has; the others are spares
  std::size_t min_nodes = 1;  ///< with fewer nodes the launch ends
  /// The launch's own nodes have the numbers below; others have joined it.
  std::size_t own = std::numeric_limits<std::size_t>::max();
  /// At most so many of its own nodes run ranks; the others are spares, also if nodes join.
  std::size_t own_wanted = std::numeric_limits<std::size_t>::max();

  std::uint32_t tries = 3;  ///< generations in a row that fail without progress, then the launch ends
  /// Generations in a row in which one node's ranks fail; then a spare replaces it if there is one.
  std::uint32_t node_tries = 2;
  std::uint32_t losses = 20;  ///< generations in a row that lose a node without progress, then the launch ends
  std::optional<Milliseconds> regrow_after;  ///< a spare was there for so long: take it in if members are missing

  Milliseconds heartbeat{500};     ///< time between two statuses
  Milliseconds suspect{2000};      ///< a node without a status for so long is not taken into a new generation
  Milliseconds dead{4000};         ///< a node without a status for so long is lost
  Milliseconds form_limit{15000};  ///< the first generation waits so long for all nodes
  Milliseconds end_limit{8000};    ///< a new generation waits so long until the ranks of the last one have ended

  // A part of the nodes that cannot reach the others pauses before it proposes a generation.
  Milliseconds half_pause{500};        ///< with half of the members and most nodes; else twice or four times as long
  Milliseconds minority_pause{12000};  ///< with fewer; more than end_limit, which the others may need
  Milliseconds last_pause{20000};      ///< without any member, or before the launch ends because nodes are missing
  Milliseconds turn{1000};             ///< the second node proposes so much later than the first, the third twice

  Milliseconds retry{1000};          ///< time until a ledger that refused is asked again
  Milliseconds linger{2000};         ///< after the end was decided, tell the others for so long
  Milliseconds decide_limit{60000};  ///< without a decision for so long, the agent ends
  Milliseconds orphan_limit{60000};  ///< a node without ranks that hears no member for so long ends
};

}  // namespace distdl::agent
