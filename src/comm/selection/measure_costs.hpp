// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/cost_table.hpp>

namespace distdl::comm {

/// Collective: measures what the parts of a collective cost here, in a few seconds, and returns the same table on all
/// ranks: that of the first rank's node, and between it and the first rank on another host. What cannot be measured,
/// for want of a second rank or a second node, stays as in communicator.costs().
CostTable measure_costs(Communicator& communicator);

}  // namespace distdl::comm
