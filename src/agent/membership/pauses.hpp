// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/agent/membership/next_decision.hpp>
#include <distdl/agent/membership/rules.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// How long `evidence` must have stayed as it is before node `self` proposes `next`, which follows from it; nothing: it
/// does not propose. The ledger makes any proposal safe. The pauses let the larger part of the nodes come first, and
/// within a part one node after the other.
std::optional<Milliseconds> pause_before_proposal(NodeId self, const Evidence& evidence, const NextDecision& next,
                                                  const Rules& rules);

}  // namespace distdl::agent
