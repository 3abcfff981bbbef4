// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/options.hpp>

namespace distdl::kernels {

/// Throws ConfigError for values that make no sense on any machine.
void check(const Options& options);

}  // namespace distdl::kernels
