// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include <distdl/base/regular_file.hpp>
#include <distdl/observe/trace/trace.hpp>

namespace distdl::observe {

/// Writes a trace as JSON in the format of Chrome's trace viewer ("Trace Event Format", JSON object form), which
/// Perfetto reads, too: a process per rank, a thread per thread, an arrow from each message's send to its receive, and
/// what agents and supervisor have written to the journal meanwhile. `write` gets the text in pieces.
void write_trace_events(const Trace& trace, const std::filesystem::path& run_folder,
                        const std::function<void(std::string_view)>& write);

/// Writes the trace events into a file, which has its name when all is written. Throws UsageError if it exists and must
/// not be replaced, and StorageError if it cannot be written.
void write_trace_file(const Trace& trace, const std::filesystem::path& run_folder, const std::filesystem::path& file,
                      Overwrite overwrite);

}  // namespace distdl::observe
