// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/train/ways.hpp>

namespace distdl::train {

/// "parameter_server": workers that compute and servers that update.
Way server_way();

}  // namespace distdl::train
