// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/options.hpp>

namespace distdl::kernels {

/// Throws ConfigError for values that are invalid on any machine.
void check(const Options& options);

}  // namespace distdl::kernels
