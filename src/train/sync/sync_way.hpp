// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/train/ways.hpp>

namespace distdl::train {

/// Ranks that sum gradients: "replicas", "sharded", "sharded_gradients" or "sharded_parameters".
Way sync_way(parallel::Strategy strategy);

}  // namespace distdl::train
