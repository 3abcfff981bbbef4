// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/comm/communicator.hpp>

namespace distdl::app {

/// The link between two ranks.
struct FabricLink {
  Rank a, b;
  bool within = false;    ///< the ranks are on one node
  double latency = 0;     ///< seconds, one way, 8 bytes
  double small_rate = 0;  ///< bytes per second and direction with messages of 64 KiB and both directions busy
  double large_rate = 0;  ///< the same with messages of 4 MiB; smaller ones if one of 4 MiB takes above 0.1 s
};

/// A link that is much worse than the others of its class.
struct SlowLink {
  std::size_t link = 0;  ///< index in FabricReport::links
  std::string why;
};

struct FabricReport {
  std::vector<std::string> hosts;  ///< host of each rank
  std::vector<FabricLink> links;
  std::vector<SlowLink> slow;
  std::vector<std::string> advice;
};

/// Collective. Measures all pairs of ranks within each node (up to some number of ranks), and all pairs of the nodes'
/// first ranks. Pairs without a common rank are measured at the same time, each for less than a second if its link
/// passes 1 MB/s. The result is complete on rank 0.
FabricReport measure_fabric(comm::Communicator& communicator);
/// Collective. Measures each rank with the next one only, the last with the first; in two or three rounds. The result
/// is complete on all ranks.
FabricReport measure_ring(comm::Communicator& communicator);

/// Sets `slow` and `advice`. A link is slow if its bandwidth is below half, or its latency above twice, that of the
/// best quarter of its class. A class must have at least three links. Pure.
void check_fabric(FabricReport& report);

std::string to_text(const FabricReport& report);
nlohmann::ordered_json to_json(const FabricReport& report);

}  // namespace distdl::app
