// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/comm/communicator.hpp>

namespace distdl::app {

/// What lies between two ranks.
struct FabricLink {
  Rank a, b;
  bool within = false;    ///< one node
  double latency = 0;     ///< seconds, one way, 8 bytes
  double small_rate = 0;  ///< bytes per second, messages of 64 KiB, both directions at once: each of them
  double large_rate = 0;  ///< the same, of 4 MiB
};

/// A link that is much worse than the others of its class.
struct SlowLink {
  std::size_t link = 0;  ///< in FabricReport::links
  std::string why;
};

struct FabricReport {
  std::vector<std::string> hosts;  ///< of each rank
  std::vector<FabricLink> links;
  std::vector<SlowLink> slow;
  std::vector<std::string> advice;
};

/// Collective: measures all pairs of ranks within each node (up to some number of ranks), and of the first ranks of the
/// nodes between them. Pairs that share no rank go at the same time. The result is complete on rank 0.
FabricReport measure_fabric(comm::Communicator& communicator);

/// Fills in `slow` and `advice`: bandwidth below half, or latency above twice what the best quarter of the links of the
/// same class have, where there are at least three. Pure.
void check_fabric(FabricReport& report);

std::string to_text(const FabricReport& report);
nlohmann::ordered_json to_json(const FabricReport& report);

}  // namespace distdl::app
