// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

/// Adds "calibrate" to "distdl bench".
void add_bench_calibrate(Command bench);

}  // namespace distdl::app
