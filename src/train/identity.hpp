// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/data/source.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/state.hpp>

namespace distdl::train {

/// Every key of a recipe that changes the numbers of a run, and what tells its data set from others. Not those that
/// change rounding only, as kernels.backend does: what the backend says of itself is saved beside these.
Identity identity_of(Recipe recipe, const data::Source& samples);

}  // namespace distdl::train
