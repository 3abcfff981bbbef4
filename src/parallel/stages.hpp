// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/model/parts.hpp>

namespace distdl::parallel {

/// The most stages that a model can be divided into, see model::first_layers().
int most_stages(const model::Description& model);

/// The layers of each of so many stages, so that the slowest one is as short as possible. What a layer costs is
/// counted: multiplications and values. Throws ConfigError if the model cannot have so many.
std::vector<model::LayerRange> stages_of(const model::Description& model, int stages);

}  // namespace distdl::parallel
