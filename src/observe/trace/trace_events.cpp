// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/files/whole_file.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/trace/trace_events.hpp>

namespace distdl::observe {
namespace {
using train::TraceFile;
using Recorded = TraceFile::Recorded;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// "conv1", for a span of a layer.
std::string layer_of(const TraceFile& rank, const Span& span) {
  const auto& layers = rank.header.layers;
  return span.number < layers.size() ? layers[span.number] : fmt::format("layer {}", span.number);
}

std::string title_of(const TraceFile& rank, const Recorded& span) {
  switch (span.kind) {
    case SpanKind::forward:
    case SpanKind::backward:
      return fmt::format("{} {}", name_of(span.kind), layer_of(rank, span));
    case SpanKind::step:
    case SpanKind::bucket:
    case SpanKind::collective_wait:
      return fmt::format("{} {}", rank.name(span), span.number);
    default:
      return rank.name(span);
  }
}

/// The events of a file, one line each.
class Events {
 public:
  Events(const Trace& trace, const std::function<void(std::string_view)>& write)
      : trace_(trace), write_(write), origin_(trace.begin) {
    for (const TraceFile& rank : trace.ranks)
      for (const Recorded& span : rank.spans) origin_ = std::min(origin_, span.begin);
  }

  void all(const std::filesystem::path& run_folder) {
    write_(
        fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"steps\":\"{}:{}\",\"clock_error_us\":{:.3f}}},\n"
                    "\"traceEvents\":[",
                    trace_.steps.first, trace_.steps.last, static_cast<double>(trace_.clock_error) / 1e3));
    for (const TraceFile& rank : trace_.ranks) {
      names_of(rank);
      for (const Recorded& span : rank.spans) nests(span.kind) ? slice(rank, span) : message(rank, span);
    }
    const auto messages = match_messages(trace_);
    for (const auto& pair : messages.pairs) arrow(pair);
    journal(run_folder);
    write_("\n]}\n");
  }

 private:
  void event(const std::string& fields) {
    write_(std::exchange(is_first_, false) ? "\n{" : ",\n{");
    write_(fields);
    write_("}");
  }
  /// Microseconds since the first span, which may begin before the first step: Perfetto drops events of negative times.
  double at(std::int64_t clock) const { return static_cast<double>(clock - origin_) / 1e3; }

  void names_of(const TraceFile& rank) {
    const int pid = rank.header.rank;
    event(fmt::format(R"("ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":{}}})", pid,
                      quoted(fmt::format("rank {} ({})", pid, rank.header.host))));
    event(fmt::format(R"("ph":"M","pid":{},"tid":0,"name":"process_sort_index","args":{{"sort_index":{}}})", pid, pid));
    for (std::size_t thread = 0; thread < rank.threads.size(); ++thread)
      event(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}})", pid, thread,
                        quoted(rank.threads[thread])));
  }

  void slice(const TraceFile& rank, const Recorded& span) {
    event(fmt::format(
        R"("ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"cat":"{}","name":{},"args":{{"number":{},"bytes":{},"peer":{}}})",
        rank.header.rank, span.thread, at(span.begin), static_cast<double>(span.end - span.begin) / 1e3,
        name_of(span.kind), quoted(title_of(rank, span)), span.number, span.bytes, span.peer));
  }

  /// Messages overlap, so that they are no slices of their thread.
  void message(const TraceFile& rank, const Recorded& span) {
    const bool sends = span.kind == SpanKind::send;
    const auto name = fmt::format("{} rank {}", sends ? "send to" : "receive from", span.peer);
    const auto half = [&](const char* phase, std::int64_t clock) {
      event(fmt::format(
          R"("ph":"{}","pid":{},"tid":{},"ts":{:.3f},"cat":"message","id":{},"name":"{}","args":{{"bytes":{},"tag":{}}})",
          phase, rank.header.rank, span.thread, at(clock), next_id_, name, span.bytes, span.number));
    };
    half("b", span.begin);
    half("e", span.end);
    ++next_id_;
  }

  void arrow(const TracedMessage& pair) {
    const TraceFile &from = trace_.ranks[pair.from_rank], &to = trace_.ranks[pair.to_rank];
    const Recorded &send = from.spans[pair.send], &receive = to.spans[pair.receive];
    const auto end = [&](const char* phase, const TraceFile& rank, const Recorded& span, std::int64_t clock) {
      event(fmt::format(R"("ph":{},"pid":{},"tid":{},"ts":{:.3f},"cat":"arrow","id":{},"name":"message")", phase,
                        rank.header.rank, span.thread, at(clock), next_id_));
    };
    end(R"("s")", from, send, send.begin);
    end(R"("f","bp":"e")", to, receive, std::max(receive.end, send.begin));
    ++next_id_;
  }

  /// Its times are those of the wall clock, of whichever node wrote the row.
  void journal(const std::filesystem::path& run_folder) {
    const int pid = trace_.ranks.back().header.ranks;
    event(fmt::format(R"("ph":"M","pid":{},"tid":0,"name":"process_name","args":{{"name":"journal"}})", pid));
    for_each_record(run_folder / "journal.jsonl", [&](const records::Row& row) {
      const double clock = (row.time - trace_.time) * 1e9 + static_cast<double>(trace_.clock);
      if (clock < static_cast<double>(trace_.begin) || clock > static_cast<double>(trace_.end)) return;
      const auto cause = cause_of(row.record);
      const auto text = std::string(name_of(row.record)) + (cause.empty() ? "" : ": " + cause);
      event(fmt::format(R"("ph":"i","s":"g","pid":{},"tid":0,"ts":{:.3f},"cat":"journal","name":{})", pid,
                        at(std::llround(clock)), quoted(text)));
    });
  }

  const Trace& trace_;
  const std::function<void(std::string_view)>& write_;
  std::int64_t origin_;  ///< clock of the first span
  bool is_first_ = true;
  std::uint64_t next_id_ = 1;
};
}  // namespace

void write_trace_events(const Trace& trace, const std::filesystem::path& run_folder,
                        const std::function<void(std::string_view)>& write) {
  Events(trace, write).all(run_folder);
}

void write_trace_file(const Trace& trace, const std::filesystem::path& run_folder, const std::filesystem::path& file,
                      Overwrite overwrite) {
  constexpr std::size_t kReadAtOnce = 1 << 20;
  WholeFile out(real_file_system(), file, overwrite);
  std::string piece;
  write_trace_events(trace, run_folder, [&](std::string_view text) {
    piece += text;
    if (piece.size() < kReadAtOnce) return;
    out.append(piece);
    piece.clear();
  });
  out.append(piece);
  out.publish();
}

}  // namespace distdl::observe
