// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

/// Adds "comm" to "distdl bench".
void add_bench_comm(Command bench);

/// Parses "8", "64K", "1M:256M" (each power of two), "1K:1M:4" (each power of four), and lists of these with commas.
/// The result is ascending. Throws UsageError.
std::vector<std::size_t> sizes_from(const std::string& text);

}  // namespace distdl::app
