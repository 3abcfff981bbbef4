// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// The fastest choice for a problem.
Choice choose(const Problem& problem, Order order);

}  // namespace distdl::comm
