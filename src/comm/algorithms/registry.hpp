// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <distdl/comm/algorithms/algorithm.hpp>

namespace distdl::comm {

/// All of them, in the order of preference where two should take equally long.
std::span<const Algorithm* const> algorithms();
/// Its place among all: the same in all processes of one build.
int place_of(const Algorithm* algorithm);

/// Is there such a schedule?
bool is_possible(const Problem& problem, const Choice& choice);
/// Of problem.rank. Pure. Throws ConfigError for a problem that makes no sense or a choice that is not possible.
Schedule make_schedule(const Problem& problem, const Choice& choice);

}  // namespace distdl::comm
