// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/train/ways.hpp>

namespace distdl::train {

/// "local_sgd": groups that train apart and are averaged.
Way local_sgd_way();

}  // namespace distdl::train
