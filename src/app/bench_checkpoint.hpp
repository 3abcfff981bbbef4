// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>

namespace distdl::app {

/// Adds "checkpoint" to "distdl bench".
void add_bench_checkpoint(CLI::App& bench);

}  // namespace distdl::app
