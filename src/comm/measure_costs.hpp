// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {

/// Collective: measures what the parts of a collective cost here, in a few seconds, and returns the same table on all
/// ranks. Messages within a node are measured between its first two ranks, between nodes from the first rank of the
/// first to the first rank of the second; what cannot be measured, as there is one node only, keeps its default.
CostTable measure_costs(Communicator& communicator);

}  // namespace distdl::comm
