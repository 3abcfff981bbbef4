// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/checkpoint/protection.hpp>
#include <distdl/observe/record_lines.hpp>

namespace distdl::observe {
namespace {
using nlohmann::json;
constexpr double kMostSeconds = 1e11;         // the year 5138
constexpr std::int64_t kMostSteps = 1 << 30;  // in one line; kMostRead holds too few lines for their sum to overflow
constexpr std::size_t kPiece = 1 << 20;

const json* member(const json& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() ? nullptr : &*found;
}

std::string text_in(const json& row, const char* key) {
  const json* value = member(row, key);
  return value && value->is_string() ? value->get<std::string>() : std::string();
}

/// Not negative, and at most `most`.
template <class Number>
std::optional<Number> number_in(const json& row, const char* key, Number most) {
  const json* value = member(row, key);
  if (!value || !value->is_number() || (std::is_integral_v<Number> && !value->is_number_integer())) return std::nullopt;
  const auto wide = value->get<double>();
  if (!(wide >= 0 && wide <= static_cast<double>(most))) return std::nullopt;
  return value->get<Number>();
}

bool flag_in(const json& row, const char* key) {
  const json* value = member(row, key);
  return value && value->is_boolean() && value->get<bool>();
}

void read_deadline(Record& record, const json& row) {
  const auto seconds = [&row](const char* key) { return number_in(row, key, kMostSeconds).value_or(0); };
  record.last_safe = seconds("last_safe");
  record.margin_seconds = seconds("margin_seconds");
  record.needed_seconds = seconds("needed_seconds");
  record.grace_seconds = seconds("grace_seconds");
  record.preemption = text_in(row, "preemption");
  record.times = {seconds("step_seconds"), seconds("evaluation_seconds"), seconds("save_seconds"),
                  seconds("snapshot_seconds")};
}

/// Of a line's length, so there are not many.
const json& list_in(const json& row, const char* key) {
  static const json none = json::array();
  const json* value = member(row, key);
  return value && value->is_array() ? *value : none;
}

constexpr std::int64_t kMostCount = std::numeric_limits<std::int64_t>::max() >> 10;

void read_shares(Record& record, const json& row, const char* shares_key, const char* seconds_key) {
  const json &shares = list_in(row, shares_key), &seconds = list_in(row, seconds_key), &hosts = list_in(row, "hosts");
  if (seconds.size() != shares.size() || hosts.size() != shares.size()) return;
  const auto is_number = [](const json& each) { return each.is_number() && each.get<double>() >= 0; };
  const auto is_text = [](const json& each) { return each.is_string(); };
  constexpr std::uint64_t kMostShare = std::uint64_t{1} << 40;
  const auto is_count = [](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() <= kMostShare;
  };
  if (!std::all_of(shares.begin(), shares.end(), is_count) || !std::all_of(seconds.begin(), seconds.end(), is_number) ||
      !std::all_of(hosts.begin(), hosts.end(), is_text))
    return;
  record.shares = shares.get<std::vector<std::int64_t>>();
  record.microbatch_seconds = seconds.get<std::vector<double>>();
  record.hosts = hosts.get<std::vector<std::string>>();
  record.has_moved = flag_in(row, "moved");
  record.microbatch_size = number_in(row, "microbatch_size", kMostCount);
  record.recomputes = flag_in(row, "recomputes");
  record.went_back = text_in(row, "went_back");
}

void read_levels(Record& record, const json& row) {
  for (const json& each : list_in(row, "levels"))
    if (each.is_string() && checkpoint::is_level_name(each.get_ref<const std::string&>()))
      record.levels.push_back(each.get<std::string>());
}

void read_disturbed(Record& record, const json& row) {
  const json &counts = list_in(row, "measurements"), &hosts = list_in(row, "hosts");
  const auto is_count = [](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostCount);
  };
  const auto is_text = [](const json& each) { return each.is_string(); };
  if (counts.size() != hosts.size() || !std::all_of(counts.begin(), counts.end(), is_count) ||
      !std::all_of(hosts.begin(), hosts.end(), is_text))
    return;
  record.measurements = counts.get<std::vector<std::int64_t>>();
  record.hosts = hosts.get<std::vector<std::string>>();
}

void read_roles(Record& record, const json& row) {
  const json &servers = list_in(row, "servers"), &workers = list_in(row, "workers"), &hosts = list_in(row, "hosts");
  const auto is_text = [](const json& each) { return each.is_string(); };
  const auto is_rank = [&](const json& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() < hosts.size();
  };
  if (!std::all_of(servers.begin(), servers.end(), is_rank) || !std::all_of(workers.begin(), workers.end(), is_rank) ||
      !std::all_of(hosts.begin(), hosts.end(), is_text))
    return;
  record.servers = servers.get<std::vector<std::int64_t>>();
  record.workers = workers.get<std::vector<std::int64_t>>();
  record.hosts = hosts.get<std::vector<std::string>>();
}

void read_resources(Record& record, const json& row) {
  const auto bytes = [&row](const char* key) {
    return number_in(row, key, std::numeric_limits<double>::max()).value_or(0);
  };
  auto& used = record.resources.emplace();
  used = {.step = Step(record.step.value_or(0)),
          .parameters = bytes("parameter_bytes"),
          .gradients = bytes("gradient_bytes"),
          .optimizer = bytes("optimizer_bytes"),
          .activations = bytes("activation_bytes"),
          .workspace = bytes("workspace_bytes"),
          .peak = bytes("peak_bytes")};
  const json &names = list_in(row, "collectives"), &calls = list_in(row, "calls"), &moved = list_in(row, "moved_bytes"),
             &seconds = list_in(row, "collective_seconds");
  if (calls.size() != names.size() || moved.size() != names.size() || seconds.size() != names.size()) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].is_string() || !calls[i].is_number_unsigned() || !moved[i].is_number_unsigned() ||
        !seconds[i].is_number())
      continue;
    used.collectives.push_back({names[i].get<std::string>(), calls[i].get<std::uint64_t>(),
                                moved[i].get<std::uint64_t>(), seconds[i].get<double>()});
  }
}

/// What only rows of the journal have.
void read_event(Record& record, const json& row) {
  record.reason = text_in(row, "reason");
  record.job = text_in(row, "job");
  record.host = text_in(row, "host");
  record.cause = text_in(row, "cause");
  record.cause_code = text_in(row, "cause_code");
  record.chain = text_in(row, "chain");
  record.nodes = text_in(row, "nodes");
  record.kind = text_in(row, "kind");
  record.node = text_in(row, "node");
  record.id = text_in(row, "id");
  record.backend = text_in(row, "backend");
  record.distdl = text_in(row, "distdl");
  record.processor = text_in(row, "processor");
  record.when = text_in(row, "when");
  record.product = text_in(row, "product");
  record.resumed_source = text_in(row, "resumed_source");
  record.rule = number_in(row, "rule", kMostCount);
  record.rank = number_in(row, "rank", kMostCount);
  record.code = number_in<std::int64_t>(row, "code", 0xffff);
  record.total_steps = number_in(row, "total_steps", kMostCount);
  record.audited = number_in(row, "audited", kMostCount).value_or(0);
  record.restart = number_in(row, "restart", kMostCount).value_or(0);
  record.ranks = number_in(row, "ranks", kMostCount).value_or(0);
  record.node_count = number_in(row, "node_count", kMostCount).value_or(0);
  record.resumed_from = number_in(row, "resumed_from", kMostCount).value_or(0);
  record.steps_repeated = number_in(row, "steps_repeated", kMostSteps).value_or(0);
  record.seconds = number_in(row, "seconds", kMostSeconds).value_or(0);
  record.stall_seconds = number_in(row, "stall_seconds", kMostSeconds).value_or(0);
  record.memory_bytes = number_in(row, "memory_bytes", std::numeric_limits<double>::max()).value_or(0);
  record.bytes = number_in(row, "bytes", std::numeric_limits<double>::max()).value_or(0);
  const auto flops = [&row](const char* key) {
    return number_in(row, key, std::numeric_limits<double>::max()).value_or(0);
  };
  record.flops_per_sample = flops("flops_per_sample");
  record.hardware_flops_per_sample = flops("hardware_flops_per_sample");
  record.peak_flops = flops("peak_flops_per_s");
  record.submit_time = number_in(row, "submit_time", kMostSeconds).value_or(0);
  record.end = number_in(row, "end", kMostSeconds).value_or(0);
  record.interrupted = flag_in(row, "interrupted");
  record.is_final = flag_in(row, "final");
  record.has_progressed = flag_in(row, "progressed");
  record.was_asked = flag_in(row, "asked_to_stop");
  record.is_refused = flag_in(row, "refused");
  record.has_mixed_backends = flag_in(row, "mixed_backends");
}
}  // namespace

std::optional<Record> parse_record(std::string_view line) {
  if (line.empty() || line.size() > kLongestLine) return std::nullopt;
  const json row = json::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  Record record{.event = text_in(row, "event")};
  record.time = number_in(row, "time", kMostSeconds).value_or(0);
  record.step = number_in(row, "step", kMostCount);
  record.start = number_in(row, "start", kMostCount);
  const auto number = [&row](const char* key) { return number_in(row, key, std::numeric_limits<double>::max()); };
  record.loss = number("loss");
  record.samples_per_s = number("samples_per_s");
  record.mfu = number("mfu");
  record.hfu = number("hfu");
  if (!record.loss) record.validation_loss = number("validation_loss");
  if (!record.loss) record.validation_accuracy = number("validation_accuracy");
  if (!record.event.empty()) read_event(record, row);
  if (record.event == "deadline") read_deadline(record, row);
  if (record.event == "shares") read_shares(record, row, "shares", "microbatch_seconds");
  if (record.event == "ranges") read_shares(record, row, "elements", "element_seconds");
  if (record.event == "checkpoint" || record.event == "snapshot") read_levels(record, row);
  if (record.event == "disturbed") read_disturbed(record, row);
  if (record.event == "product") read_roles(record, row);
  if (record.event == "resources") read_resources(record, row);
  return record;
}

void RecordLines::take(std::string_view piece) {
  for (auto end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
    add(piece.substr(0, end));
    finish();
    piece.remove_prefix(end + 1);
  }
  add(piece);
}

void RecordLines::finish() {
  if (!too_long_)
    if (const auto record = parse_record(line_)) visit_(*record);
  line_.clear();
  too_long_ = false;
}

void RecordLines::add(std::string_view part) {
  too_long_ = too_long_ || part.size() > kLongestLine - line_.size();
  if (!too_long_) line_ += part;
}

void read_records(const std::filesystem::path& file, const std::function<void(const Record&)>& visit,
                  std::size_t most) {
  const FileDescriptor descriptor = open_regular(file);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  off_t at = std::max<off_t>(0, size - static_cast<off_t>(most));
  RecordLines lines(visit);
  if (at > 0) lines.skip_one();
  std::vector<char> piece(std::min(kPiece, most));
  while (at < size) {
    const ssize_t n = ::pread(descriptor.get(), piece.data(), piece.size(), at);
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n >= 0, "cannot read \"{}\": {}", file.string(), errno_text(errno));
    if (n == 0) break;
    lines.take({piece.data(), static_cast<std::size_t>(n)});
    at += n;
  }
  lines.finish();
}

namespace {
/// Of each file, because a command reads some of them several times.
void warn_once(const std::filesystem::path& file, const StorageError& error) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(file.string()).second) log(Severity::warning, "{}; what it tells is not known", error.what());
}
}  // namespace

void for_each_record(const std::filesystem::path& file, const std::function<void(const Record&)>& visit,
                     std::size_t most) try {
  read_records(file, visit, most);
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return;
  if (::access(file.c_str(), R_OK) != 0 && errno == EACCES) return warn_once(file, error);
  log(Severity::debug, "not read: {}", error.what());  // its writer warns
}

}  // namespace distdl::observe
