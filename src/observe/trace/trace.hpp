// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/train/trace_file.hpp>

// The spans of all ranks of one start of a run, on one clock (docs/trace.md). The files are not trusted.
namespace distdl::observe {

struct Trace {
  std::filesystem::path folder;         ///< folder of the start
  train::TracedSteps steps;             ///< steps in the trace, of those that were asked for
  std::vector<train::TraceFile> ranks;  ///< ascending; their spans are on rank 0's clock, in nanoseconds
  std::vector<int> missing;             ///< ranks without a file that can be read
  std::int64_t clock_error = 0;         ///< nanoseconds by which times of two ranks may be wrong against each other
  double time = 0;                      ///< seconds since 1970 ...
  std::int64_t clock = 0;               ///< ... when the common clock was that
  std::int64_t begin = 0, end = 0;      ///< beginning and end of the steps above, on the common clock
};

/// The newest start of the run that has traced any of these steps; none: any steps. With steps, only what overlaps them
/// is kept. Throws StorageError: incomplete if no such start is there, corrupt or incompatible as read_trace_file().
Trace read_trace(const std::filesystem::path& run_folder, const std::optional<train::TracedSteps>& steps);

/// A message from its sender to its receiver: indices of Trace::ranks and of their spans.
struct TracedMessage {
  std::size_t from_rank = 0, send = 0, to_rank = 0, receive = 0;
};
struct TracedMessages {
  std::vector<TracedMessage> pairs;
  std::size_t unmatched = 0;  ///< spans of messages whose other side was not recorded, although its rank was
};
TracedMessages match_messages(const Trace& trace);

/// True if a span is of the thread that trains.
bool is_of_training_thread(const train::TraceFile& rank, const train::TraceFile::Recorded& span);

}  // namespace distdl::observe
