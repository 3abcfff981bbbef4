// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace distdl::parallel::pipeline {

/// The number of layers of each stage, so that the slowest stage is as short as possible. Stages are consecutive
/// layers, at least one each. `costs`: of each layer, at least 0, in any unit. Takes stages * layers^2 additions.
/// Throws ConfigError if there are fewer layers than stages.
std::vector<int> balance_stages(std::span<const double> costs, int stages);

}  // namespace distdl::parallel::pipeline
