// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {

/// Collective. Measures the costs of the parts of a collective in a few seconds and returns the same table on all
/// ranks. It describes the node of the first rank, and the network between it and the first rank on another host. Costs
/// that cannot be measured, because there is no second rank or node, are those of communicator.costs().
CostTable measure_costs(Communicator& communicator);

}  // namespace distdl::comm
