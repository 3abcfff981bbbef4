// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <distdl/base/ids.hpp>

namespace distdl::world {

/// A list of ranks for messages: "rank 3", "ranks 1, 2 and 5", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 120 more".
std::string name_ranks(std::span<const Rank> ranks);

}  // namespace distdl::world
