// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// Does a rank get the result of a sum of which no slices are scattered?
bool has_result(const Problem& problem, int rank);
/// Operand::reductions that sum these terms, as the choice's order wants it.
std::vector<std::uint16_t> reductions_of(const ScheduleBuilder& build, const std::vector<Term>& terms);

}  // namespace distdl::comm
