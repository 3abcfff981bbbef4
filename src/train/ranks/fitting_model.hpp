// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/data/source.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/parallel/cluster.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/setting.hpp>

namespace distdl::train {

/// Not collective. Returns what this rank holds of the model, with activations that are computed again where the memory
/// of its machine asks for that. `samples`: of the training. Throws ConfigError if the machine has too little memory
/// for its ranks.
OwnedModel hold_what_fits(const Recipe& recipe, const Setting& setting, const parallel::Mesh& mesh,
                          kernels::Backend& backend, const data::Source& samples,
                          const std::optional<parallel::Cluster>& cluster);

}  // namespace distdl::train
