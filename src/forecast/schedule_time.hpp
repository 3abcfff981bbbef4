// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::forecast {

/// Returns the seconds from the common start of a collective to the end of its last rank, by a simulation of the ranks'
/// schedules, event by event. A message needs both ranks, and the network devices of both nodes, one message at a time
/// in each direction (the model of LogGP: Alexandrov, Ionescu, Schauser and Scheiman, SPAA 1995). `schedules`: those of
/// all ranks. `problem`: that of any rank. Throws InternalError for schedules that never end.
double schedule_seconds(std::span<const comm::Schedule> schedules, const comm::Problem& problem,
                        const comm::CostTable& costs);

}  // namespace distdl::forecast
