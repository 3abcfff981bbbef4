// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace distdl::parallel::pipeline {

/// Returns the number of layers of each stage, so that the slowest stage is as short as possible. Stages are
/// consecutive layers, at least one each. `costs`: cost of each layer, at least 0, in any unit. Takes stages * layers^2
/// additions. Throws ConfigError if there are fewer layers than stages.
std::vector<int> balance_stages(std::span<const double> costs, int stages);

/// Returns the numbers of layers that are nearest to the wanted ones. These are the wanted ones themselves if so many
/// stages can have them. Else the last stages have more or fewer; with another number of stages the slowest is as short
/// as possible. Throws as balance_stages() does.
std::vector<std::int64_t> nearest_stages(std::span<const double> costs, int stages,
                                         std::span<const std::int64_t> wanted);

}  // namespace distdl::parallel::pipeline
