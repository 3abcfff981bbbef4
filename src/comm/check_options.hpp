// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/options.hpp>

namespace distdl::comm {

/// Throws ConfigError for values that are invalid on any machine.
void check(const Options& options);

}  // namespace distdl::comm
