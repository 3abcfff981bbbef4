// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A barrier of `members`: no rank continues before all have arrived. Hensgen, Finkel, Manber, IJPP 1988.
void disseminate(ScheduleBuilder& build, const std::vector<int>& members);

}  // namespace distdl::comm
