// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// None of `members` goes on before all have come. Hensgen, Finkel, Manber, IJPP 1988.
void disseminate(ScheduleBuilder& build, const std::vector<int>& members);

}  // namespace distdl::comm
