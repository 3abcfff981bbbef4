// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server::simulation {

/// One run in which the network, the speeds and the faults are drawn from a seed.
struct Interleaving {
  std::uint64_t seed = 0;
  Rules rules;
  int servers = 1, workers = 1;
  double drop = 0, repeat = 0;  ///< probabilities of a message
  int lost_workers = 0, lost_servers = 0, lost_schedulers = 0, frozen_workers = 0;
  int joined_workers = 0, joined_servers = 0;
  bool may_be_wrong = false;  ///< a node that counts as lost may run on
  bool are_spaced = false;    ///< a server is lost only when all ranges have two holders again, and one is left
};
Interleaving make_interleaving(std::uint64_t seed);
std::string describe(const Interleaving& interleaving);

struct Outcome {
  std::string broken;  ///< the promise that was broken first; empty: none
  bool has_restarted = false;
  std::size_t events = 0, messages = 0, applied = 0;
  std::int64_t most_staleness = 0;  ///< updates that a gradient lacked
  std::size_t computed_again = 0;   ///< gradients beyond one per microbatch
};

Outcome simulate(const Interleaving& interleaving, bool traces = false);

}  // namespace distdl::parallel::server::simulation
