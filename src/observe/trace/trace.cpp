// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/observe/trace/trace.hpp>

namespace distdl::observe {
namespace {
using train::TracedSteps;
using train::TraceFile;
using Recorded = TraceFile::Recorded;

/// The folders of starts, the newest first.
std::vector<std::filesystem::path> starts_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> starts;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.is_directory(error)) starts.push_back(entry.path());
  std::ranges::sort(starts, std::greater<>());
  return starts;
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& start) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(start, error))
    if (entry.path().extension() == ".spans") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// How far the rank's clock is ahead of rank 0's at this moment; between two measurements it drifts evenly.
std::int64_t offset_at(const TraceFile& rank, std::int64_t clock) {
  if (rank.offsets.empty()) return 0;
  const auto &first = rank.offsets.front(), &last = rank.offsets.back();
  if (last.clock <= first.clock) return first.offset;
  const auto since = static_cast<double>(clock - first.clock), whole = static_cast<double>(last.clock - first.clock);
  const double part = std::clamp(since / whole, 0.0, 1.0);
  return first.offset + static_cast<std::int64_t>(static_cast<double>(last.offset - first.offset) * part);
}

void move_to_common_clock(TraceFile& rank) {
  for (Recorded& span : rank.spans) {
    span.begin -= offset_at(rank, span.begin);
    span.end = std::max(span.begin, span.end - offset_at(rank, span.end));
  }
}

void check_belongs(const TraceFile& rank, const TraceFile& first, const std::filesystem::path& file) {
  require<StorageError>(rank.header.start == first.header.start && rank.header.ranks == first.header.ranks,
                        "\"{}\" belongs to another start of the run than the files beside it (start {} of {} ranks, "
                        "not {} of {}); move it away",
                        file.string(), rank.header.start, rank.header.ranks, first.header.start, first.header.ranks);
}

std::vector<TraceFile> read_ranks(const std::filesystem::path& start) {
  std::vector<TraceFile> ranks;
  for (const auto& file : files_in(start)) {
    try {
      ranks.push_back(train::read_trace_file(file));
    } catch (const StorageError& error) {
      if (error.exit_code() != ExitCode::incomplete) throw;
      continue;  // its rank ended as it began: it is missing
    }
    check_belongs(ranks.back(), ranks.front(), file);
  }
  std::ranges::sort(ranks, {}, [](const TraceFile& rank) { return rank.header.rank; });
  const auto same = [](const TraceFile& a, const TraceFile& b) { return a.header.rank == b.header.rank; };
  const auto twice = std::ranges::adjacent_find(ranks, same);
  require<StorageError>(twice == ranks.end(), "two files in \"{}\" are of rank {}; move one away", start.string(),
                        twice == ranks.end() ? 0 : twice->header.rank);
  return ranks;
}

/// Sets steps, begin and end of what is there of `asked`. Returns whether there is anything.
bool find_steps(Trace& trace, const std::optional<TracedSteps>& asked) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  trace.steps = {kMost, 0};
  trace.begin = kMost, trace.end = 0;
  for (const TraceFile& rank : trace.ranks)
    for (const Recorded& span : rank.spans) {
      if (span.kind != SpanKind::step || (asked && !asked->has(span.number))) continue;
      trace.steps.first = std::min<std::int64_t>(trace.steps.first, span.number);
      trace.steps.last = std::max<std::int64_t>(trace.steps.last, span.number);
      trace.begin = std::min(trace.begin, span.begin);
      trace.end = std::max(trace.end, span.end);
    }
  return trace.steps.last > 0;
}

/// Keeps the spans that lie in the steps or overlap them, but no other step of a rank that is early or late.
void keep_steps_only(Trace& trace) {
  for (TraceFile& rank : trace.ranks)
    std::erase_if(rank.spans, [&](const Recorded& span) {
      if (span.kind == SpanKind::step && !trace.steps.has(span.number)) return true;
      return span.end <= trace.begin || span.begin >= trace.end;
    });
}

std::optional<Trace> read_start(const std::filesystem::path& start, const std::optional<TracedSteps>& steps) {
  Trace trace{.folder = start, .steps = {}, .ranks = read_ranks(start), .missing = {}};
  if (trace.ranks.empty()) return std::nullopt;
  for (TraceFile& rank : trace.ranks) {
    std::int64_t error = 0;
    for (const auto& offset : rank.offsets) error = std::max(error, offset.error);
    trace.clock_error = std::max(trace.clock_error, error);
    move_to_common_clock(rank);
  }
  // Each of two ranks may be wrong by so much against rank 0.
  if (trace.ranks.size() > 2) trace.clock_error *= 2;
  for (int rank = 0; rank < trace.ranks.front().header.ranks; ++rank)
    if (std::ranges::find(trace.ranks, rank, [](const TraceFile& one) { return one.header.rank; }) == trace.ranks.end())
      trace.missing.push_back(rank);
  const auto& header = trace.ranks.front().header;
  trace.time = header.time;
  trace.clock = header.clock - offset_at(trace.ranks.front(), header.clock);
  if (!find_steps(trace, steps)) return std::nullopt;
  if (steps) keep_steps_only(trace);
  return trace;
}
}  // namespace

Trace read_trace(const std::filesystem::path& run_folder, const std::optional<TracedSteps>& steps) {
  const auto starts = starts_in(run_folder / "trace");
  for (const auto& start : starts)
    if (auto trace = read_start(start, steps)) return std::move(*trace);
  if (starts.empty())
    throw StorageError(
        fmt::format("the run \"{}\" has no trace: resume or repeat it with --set log.trace=A:B, the steps to record",
                    run_folder.string()),
        ExitCode::incomplete);
  std::vector<std::string> there;
  if (steps)
    for (const auto& start : starts)
      if (const auto trace = read_start(start, {}))
        there.push_back(fmt::format("{}:{}", trace->steps.first, trace->steps.last));
  throw StorageError(fmt::format("the run \"{}\" has no whole step {}in its trace{}", run_folder.string(),
                                 steps ? fmt::format("of {}:{} ", steps->first, steps->last) : "",
                                 there.empty() ? ": its ranks ended before they had traced one"
                                               : fmt::format("; it has {}", fmt::join(there, ", "))),
                     ExitCode::incomplete);
}

bool is_of_training_thread(const TraceFile& rank, const Recorded& span) {
  return rank.threads[span.thread] == "train";
}

namespace {
/// One side of the messages that are told apart only by their order.
struct Side {
  std::size_t rank, span;
  std::int64_t begin;
};
struct Sides {
  std::vector<Side> sends, receives;
};
}  // namespace

TracedMessages match_messages(const Trace& trace) {
  // The writing threads have connections of their own, whose groups and numbers begin anew.
  std::map<std::tuple<bool, std::uint16_t, std::uint32_t, int, int>, Sides> all;
  std::map<int, std::size_t> index_of;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) index_of[trace.ranks[r].header.rank] = r;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    const TraceFile& rank = trace.ranks[r];
    for (std::size_t s = 0; s < rank.spans.size(); ++s) {
      const Recorded& span = rank.spans[s];
      if (nests(span.kind) || !index_of.contains(span.peer)) continue;
      const bool sends = span.kind == SpanKind::send;
      const int self = rank.header.rank, from = sends ? self : span.peer, to = sends ? span.peer : self;
      Sides& sides = all[{rank.threads[span.thread] == "writer", span.group, span.number, from, to}];
      (sends ? sides.sends : sides.receives).push_back({r, s, span.begin});
    }
  }
  TracedMessages messages;
  for (auto& [key, sides] : all) {
    std::ranges::stable_sort(sides.sends, {}, &Side::begin);
    std::ranges::stable_sort(sides.receives, {}, &Side::begin);
    const std::size_t pairs = std::min(sides.sends.size(), sides.receives.size());
    for (std::size_t i = 0; i < pairs; ++i)
      messages.pairs.push_back(
          {sides.sends[i].rank, sides.sends[i].span, sides.receives[i].rank, sides.receives[i].span});
    messages.unmatched += sides.sends.size() + sides.receives.size() - 2 * pairs;
  }
  return messages;
}

}  // namespace distdl::observe
