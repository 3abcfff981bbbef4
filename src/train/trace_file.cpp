// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/train/trace_file.hpp>

namespace distdl::train {
namespace {
constexpr int kVersion = 1;
constexpr std::size_t kMostHeader = 4 << 20;  ///< bytes
constexpr int kMostRanks = 1 << 20;
constexpr std::int64_t kMostClock = std::int64_t{1} << 60;  ///< nanoseconds: 36 years; sums of some do not overflow
constexpr double kMostTime = 1e11;                          ///< seconds since 1970
// Kinds of records beside those of SpanKind.
constexpr std::uint16_t kName = 0x100, kThread = 0x101, kOffset = 0x102, kLost = 0x103;

/// As it lies in memory, on x86-64 and aarch64 alike.
struct RawRecord {
  std::int64_t begin, end;
  std::uint64_t bytes;
  std::uint32_t number;
  std::int32_t peer;
  std::uint16_t kind, group, thread, name;
  std::uint32_t reserved, crc;  ///< CRC-32C of the bytes before
};
static_assert(sizeof(RawRecord) == 48 && std::endian::native == std::endian::little);
constexpr std::size_t kChecked = offsetof(RawRecord, crc);
constexpr std::size_t kText = offsetof(RawRecord, number);  ///< bytes of a text, in place of begin, end and bytes

std::uint32_t crc_of(const RawRecord& record) {
  return crc32c(std::as_bytes(std::span(&record, 1)).first(kChecked));
}

std::string to_line(const TraceHeader& header) {
  const nlohmann::ordered_json row{{"distdl_trace", kVersion},  {"start", header.start}, {"rank", header.rank},
                                   {"ranks", header.ranks},     {"host", header.host},   {"first", header.steps.first},
                                   {"last", header.steps.last}, {"time", header.time},   {"clock", header.clock},
                                   {"layers", header.layers}};
  return row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}
}  // namespace

struct TraceWriter::Record : RawRecord {};

TraceWriter::TraceWriter(const std::filesystem::path& file, const TraceHeader& header, std::size_t most_bytes)
    : file_(file), most_bytes_(most_bytes) {
  buffer_.reserve(SpanTrack::kCapacity * sizeof(RawRecord));
  try {
    make_folders(real_file_system(), file.parent_path());
    descriptor_ = create_file(file);
    const auto line = to_line(header);
    const auto bytes = std::as_bytes(std::span(line));
    buffer_.assign(bytes.begin(), bytes.end());
    flush();
  } catch (const StorageError& error) {
    fail(error.what());
  }
}

void TraceWriter::fail(const std::string& why) {
  descriptor_.reset();
  buffer_.clear();
  log(Severity::warning, "the trace of this rank ends here: {}; training goes on", why);
}

void TraceWriter::flush() {
  std::span<const std::byte> rest(buffer_);
  while (descriptor_ && !rest.empty()) {
    const ssize_t n = ::write(descriptor_.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(fmt::format("cannot write to \"{}\": {}", file_.string(), errno_text(errno)));
    rest = rest.subspan(static_cast<std::size_t>(n));
  }
  bytes_ += buffer_.size();
  buffer_.clear();
}

void TraceWriter::put(Record record, const char* text) {
  if (text != nullptr) {
    char* const place = reinterpret_cast<char*>(&record);
    std::string_view(text).copy(place, kText);
  }
  record.crc = crc_of(record);
  const auto bytes = std::as_bytes(std::span(&record, 1));
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

std::uint16_t TraceWriter::name_of(const char* text) {
  const auto found = std::ranges::find(names_, text);
  const auto index = static_cast<std::uint16_t>(found - names_.begin());
  if (found != names_.end()) return index;
  names_.push_back(text);
  Record record{};
  record.kind = kName;
  record.name = index;
  put(record, text);
  return index;
}

std::uint16_t TraceWriter::thread_of(const SpanTrack& track) {
  const auto found = std::ranges::find(threads_, &track, &decltype(threads_)::value_type::first);
  const auto index = static_cast<std::uint16_t>(found - threads_.begin());
  if (found != threads_.end()) return index;
  threads_.emplace_back(&track, 0);
  Record record{};
  record.kind = kThread;
  record.thread = index;
  put(record, track.name());
  return index;
}

void TraceWriter::add(const ClockOffset& offset) {
  Record record{};
  record.kind = kOffset;
  record.begin = offset.clock;
  record.end = offset.offset;
  record.bytes = static_cast<std::uint64_t>(offset.error);
  put(record);
}

void TraceWriter::add(SpanTrack& track) {
  const std::uint16_t thread = thread_of(track);
  track.drain([&](const Span& span) {
    if (bytes_ + buffer_.size() + 2 * sizeof(RawRecord) > most_bytes_) {
      ++lost_;
      return;
    }
    Record record{};
    record.name = name_of(span.name);
    record.begin = span.begin;
    record.end = span.end;
    record.bytes = span.bytes;
    record.number = span.number;
    record.peer = span.peer;
    record.kind = static_cast<std::uint16_t>(span.kind);
    record.group = span.group;
    record.thread = thread;
    put(record);
  });
  auto& known = threads_[thread].second;
  const std::uint64_t lost = track.lost();
  lost_ += lost - std::exchange(known, lost);
}

void TraceWriter::end() {
  if (lost_ > 0) {
    Record record{};
    record.kind = kLost;
    record.bytes = std::exchange(lost_, 0);
    put(record);
  }
  flush();
}

namespace {
[[noreturn]] void refuse(const std::filesystem::path& file, std::size_t at, const std::string& why) {
  throw StorageError(fmt::format("the trace file \"{}\" is damaged at byte {}: {}; remove the file to see the trace of "
                                 "the other ranks, or trace the run again",
                                 file.string(), at, why),
                     ExitCode::corrupt);
}

bool is_clock(std::int64_t clock) {
  return clock >= 0 && clock <= kMostClock;
}

TraceHeader header_from(const std::filesystem::path& file, const std::string& line) try {
  const auto row = nlohmann::json::parse(line);
  const auto version = whole_in<int>(row, "distdl_trace");
  if (version != kVersion)
    throw StorageError(
        fmt::format("the trace file \"{}\" has version {} of the format, but this distdl reads version {}; use the "
                    "distdl that trained the run",
                    file.string(), version, kVersion),
        ExitCode::incompatible);
  TraceHeader header;
  header.start = row.at("start").get<std::string>();
  header.rank = whole_in<int>(row, "rank");
  header.ranks = whole_in<int>(row, "ranks");
  header.host = row.at("host").get<std::string>();
  header.steps = {whole_in<std::int64_t>(row, "first"), whole_in<std::int64_t>(row, "last")};
  header.time = row.at("time").get<double>();
  header.clock = whole_in<std::int64_t>(row, "clock");
  header.layers = row.at("layers").get<std::vector<std::string>>();
  if (header.ranks < 1 || header.ranks > kMostRanks || header.rank < 0 || header.rank >= header.ranks)
    refuse(file, 0, fmt::format("rank {} of {}", header.rank, header.ranks));
  if (!is_clock(header.clock) || header.time < 0 || header.time > kMostTime) refuse(file, 0, "an impossible time");
  return header;
} catch (const nlohmann::json::exception& error) {
  refuse(file, 0, error.what());
}

std::string text_of(const RawRecord& record) {
  const auto* const place = reinterpret_cast<const char*>(&record);
  return {place, ::strnlen(place, kText)};
}

/// Adds a record that is whole. Returns what is wrong with it, or nothing.
std::string add(TraceFile& trace, const RawRecord& record) {
  switch (record.kind) {
    case kName:
      if (record.name != trace.names.size()) return "a name has a wrong number";
      trace.names.push_back(text_of(record));
      return {};
    case kThread:
      if (record.thread != trace.threads.size()) return "a thread has a wrong number";
      trace.threads.push_back(text_of(record));
      return {};
    case kOffset:
      if (!is_clock(record.begin) || record.end < -kMostClock || record.end > kMostClock || record.bytes > kMostClock)
        return "an impossible offset of the clock";
      trace.offsets.push_back({record.begin, record.end, static_cast<std::int64_t>(record.bytes)});
      return {};
    case kLost:
      trace.lost += record.bytes;
      return {};
    default:
      break;
  }
  if (record.kind >= kSpanKinds) return fmt::format("a record of the unknown kind {}", record.kind);
  if (record.name >= trace.names.size() || record.thread >= trace.threads.size())
    return "a span of an unknown thread or name";
  if (!is_clock(record.begin) || !is_clock(record.end)) return "a span has an impossible time";
  if (record.end < record.begin) return "a span ends before it begins";
  TraceFile::Recorded span;
  static_cast<Span&>(span) = {
      record.begin, record.end, "", record.bytes, record.number, record.peer, static_cast<SpanKind>(record.kind),
      record.group};
  span.thread = record.thread;
  span.name_index = record.name;
  trace.spans.push_back(span);
  return {};
}
}  // namespace

TraceFile read_trace_file(const std::filesystem::path& file) {
  const std::string all = read_regular(file, TraceWriter::kMostBytes + kMostHeader);
  const auto end = all.find('\n');
  TraceFile trace;
  if (end == std::string::npos) {
    throw StorageError(
        fmt::format("the trace file \"{}\" has no whole header: its rank ended as it began; remove it", file.string()),
        ExitCode::incomplete);
  }
  trace.header = header_from(file, all.substr(0, end));
  std::size_t at = end + 1;
  for (; at + sizeof(RawRecord) <= all.size(); at += sizeof(RawRecord)) {
    RawRecord record{};
    std::memcpy(&record, all.data() + at, sizeof record);
    if (record.crc != crc_of(record)) {
      // After a crash of a node, the end of a file may be zeros, or half a record.
      const bool is_last = at + 2 * sizeof(RawRecord) > all.size();
      trace.is_torn = is_last || std::string_view(all).find_first_not_of('\0', at) == std::string::npos;
      if (trace.is_torn) return trace;
      refuse(file, at, "the checksum of a record is wrong");
    }
    if (const auto why = add(trace, record); !why.empty()) refuse(file, at, why);
  }
  trace.is_torn = at != all.size();
  return trace;
}

}  // namespace distdl::train
