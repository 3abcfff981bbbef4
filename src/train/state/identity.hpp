// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/data/source.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Properties that neither an identity nor a checkpoint contains where they have these values: runs of older versions
/// had no others, and the keys of a way of training are "none" where another one trains.
const Identity& usual_properties();

/// Every key of a recipe that changes the numbers of a run, and the digest of its data set. Keys that change only
/// rounding, such as kernels.backend, are left out: the backend's description is saved separately.
Identity identity_of(Recipe recipe, const data::Source& samples);

}  // namespace distdl::train
