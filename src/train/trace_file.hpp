// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/spans.hpp>
#include <distdl/train/trace.hpp>

// The file in which a rank keeps its spans: a line of JSON, then records of 48 bytes with a checksum each
// (docs/trace.md).
namespace distdl::train {

struct TraceHeader {
  std::string start;  ///< the same on all ranks of a start: milliseconds since 1970
  int rank = 0, ranks = 1;
  std::string host = {};
  TracedSteps steps = {};           ///< steps that were requested
  double time = 0;                  ///< seconds since 1970 ...
  std::int64_t clock = 0;           ///< ... when this rank's span_clock() had this value
  std::vector<std::string> layers;  ///< names of the model's layers, and "loss"
};

/// How far a rank's clock is ahead of that of rank 0.
struct ClockOffset {
  std::int64_t clock = 0;   ///< span_clock() of this rank at the measurement
  std::int64_t offset = 0;  ///< nanoseconds
  std::int64_t error = 0;   ///< the offset is at most so wrong: half the shortest round trip
};

/// Appends to the file of one rank. A file system that refuses, or a file that has become too long, ends the trace and
/// not the run.
class TraceWriter {
 public:
  static constexpr std::size_t kMostBytes = 32 << 20;  ///< largest size of a file; further spans are lost, and counted

  /// Creates the file and its folder. Fails with a warning in the log.
  TraceWriter(const std::filesystem::path& file, const TraceHeader& header, std::size_t most_bytes = kMostBytes);
  void add(const ClockOffset& offset);
  /// The spans of a thread since the last call.
  void add(SpanTrack& track);
  /// Writes what was added.
  void flush();
  /// Writes what was added, and the number of lost spans. More may follow.
  void end();

 private:
  struct Record;
  std::uint16_t name_of(const char* text);
  std::uint16_t thread_of(const SpanTrack& track);
  void put(Record record, const char* text = nullptr);
  void fail(const std::string& why);

  std::filesystem::path file_;
  FileDescriptor descriptor_;  ///< none: nothing is written any more
  std::size_t most_bytes_, bytes_ = 0;
  std::vector<std::byte> buffer_;
  std::vector<const char*> names_;
  std::vector<std::pair<const SpanTrack*, std::uint64_t>> threads_;  ///< each with the lost spans counted so far
  std::uint64_t lost_ = 0;                                           ///< spans that the file lacks
};

struct TraceFile {
  struct Recorded : Span {  ///< the name is that of TraceFile::names
    std::uint16_t thread = 0, name_index = 0;
  };
  TraceHeader header;
  std::vector<std::string> threads, names;
  std::vector<ClockOffset> offsets;
  std::vector<Recorded> spans;  ///< spans of all threads; those of a thread in the order of their ends
  std::uint64_t lost = 0;       ///< spans for which there was no room
  bool is_torn = false;         ///< true if the last record is not whole: the rank or its node ended while it wrote

  const std::string& name(const Recorded& span) const { return names[span.name_index]; }
};

/// Reads a file up to its last whole record. Throws StorageError: incomplete if there is none, corrupt if it is damaged
/// elsewhere than at its end, incompatible if another version of distdl wrote it.
TraceFile read_trace_file(const std::filesystem::path& file);

}  // namespace distdl::train
