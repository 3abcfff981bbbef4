// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <distdl/comm/algorithms/algorithm.hpp>

namespace distdl::comm {

/// All algorithms. Of two with equal predicted time, the first is preferred.
std::span<const Algorithm* const> algorithms();
/// Index of the algorithm among all, the same in all processes of one build.
int place_of(const Algorithm* algorithm);

/// Whether there is such a schedule.
bool is_possible(const Problem& problem, const Choice& choice);
/// The schedule of problem.rank. Pure. Throws ConfigError for an invalid problem or an impossible choice.
Schedule make_schedule(const Problem& problem, const Choice& choice);

}  // namespace distdl::comm
