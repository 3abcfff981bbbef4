// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

/// Adds "checkpoint" to "distdl bench".
void add_bench_checkpoint(Command bench);

}  // namespace distdl::app
