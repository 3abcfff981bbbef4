// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// Whether a rank gets the result of a sum that does not scatter slices.
bool has_result(const Problem& problem, int rank);
/// The Operand::reductions that sum these terms in the order of the choice.
std::vector<std::uint16_t> reductions_of(const ScheduleBuilder& build, const std::vector<Term>& terms);

}  // namespace distdl::comm
