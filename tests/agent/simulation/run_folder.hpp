// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

#include <distdl/agent/decision.hpp>

namespace distdl::agent::simulation {

/// Safeguards outside of the agents. A mutant takes one away.
struct Safeguards {
  bool exclusive_ledger = true;  ///< a record is created once
  bool fencing = true;           ///< only the owner commits
  bool ordered_owners = true;    ///< no generation takes OWNER from a newer one
};

/// The run folder: the ledger, OWNER and the checkpoints.
struct RunFolder {
  Safeguards safeguards;
  std::map<Generation, Decision> ledger;
  Generation owner;
  std::int64_t committed = 0;  ///< step of the newest checkpoint

  /// Returns what stands there then.
  const Decision& create(const Decision& decision) {
    if (!safeguards.exclusive_ledger) return ledger[decision.generation] = decision;
    return ledger.emplace(decision.generation, decision).first->second;
  }
  /// Whether the ranks of `generation` may go on.
  bool take(Generation generation) {
    if (safeguards.ordered_owners && owner > generation) return false;
    owner = generation;
    return true;
  }
};

}  // namespace distdl::agent::simulation
