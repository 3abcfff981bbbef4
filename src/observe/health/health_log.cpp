// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/health/energy_meter.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/metrics/thinning.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/records.hpp>

namespace distdl::observe {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
constexpr std::size_t kNewestRows = 4096;  ///< bytes, which hold the newest row

template <class Value>
void put(Json& row, const char* key, const std::optional<Value>& value) {
  if (value) row[key] = *value;
}

constexpr double kMostOfAKey = 2e9;  // an int holds it
constexpr double kMostJoules = 1e15;

template <class Value>
void get(const Json& row, const char* key, std::optional<Value>& value, double most = kMostOfAKey) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return;
  const auto wide = found->template get<double>();
  if (wide >= 0 && wide <= most) value = static_cast<Value>(wide);
}

/// Calls `visit` for each key of a row and its value.
template <class Health, class Visitor>
void each_of(Health& health, Visitor&& visit) {
  visit("load", health.load);
  visit("cpu_pressure", health.cpu_pressure);
  visit("memory_pressure", health.memory_pressure);
  visit("io_pressure", health.io_pressure);
  visit("free_memory", health.free_memory);
  visit("throttles", health.throttles);
  visit("corrected_errors", health.corrected_errors);
  visit("uncorrected_errors", health.uncorrected_errors);
}

/// The text of the last whole line.
std::string last_line(const fs::path& file) {
  std::string tail = read_end_of_regular(file, kNewestRows);
  tail.resize(tail.rfind('\n') == std::string::npos ? 0 : tail.rfind('\n'));
  return tail.substr(tail.rfind('\n') + 1);
}

std::optional<HealthRow> row_of(const std::string& line) {
  if (line.size() > kLongestLine) return std::nullopt;
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("time") || !json["time"].is_number()) return std::nullopt;
  if (!json.contains("host") || !json["host"].is_string()) return std::nullopt;
  HealthRow row{json["host"].get<std::string>(), json["time"].get<double>(), {}};
  each_of(row.health, [&](const char* key, auto& value) { get(json, key, value); });
  get(json, "energy_joules", row.health.energy, kMostJoules);
  const auto gpus = json.find("gpus");
  if (gpus == json.end() || !gpus->is_object()) return row;
  std::optional<int> count, throttled;
  health::GpuHealth all;
  get(*gpus, "count", count);
  get(*gpus, "throttled", throttled);
  get(*gpus, "hottest", all.hottest);
  get(*gpus, "corrected_errors", all.corrected_errors);
  get(*gpus, "uncorrected_errors", all.uncorrected_errors);
  all.gpus = count.value_or(0);
  all.throttled = throttled.value_or(0);
  row.health.gpus = all;
  return row;
}

Json json_of(const HealthRow& row) {
  Json json{{"time", row.time}, {"host", row.host}};
  each_of(row.health, [&](const char* key, const auto& value) { put(json, key, value); });
  put(json, "energy_joules", row.health.energy);
  if (const auto& gpus = row.health.gpus) {
    Json all{{"count", gpus->gpus}, {"throttled", gpus->throttled}};
    put(all, "hottest", gpus->hottest);
    put(all, "corrected_errors", gpus->corrected_errors);
    put(all, "uncorrected_errors", gpus->uncorrected_errors);
    json["gpus"] = all;
  }
  return json;
}

std::string health_line(const Json& row) {
  return row.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// With the GPUs, if there are any.
std::function<health::NodeHealth()> reader() {
  std::shared_ptr<health::GpuMonitor> gpus = health::GpuMonitor::open();
  return [gpus, meter = health::EnergyMeter()]() mutable {
    auto health = health::read_node_health();
    if (gpus) health.gpus = gpus->read();
    health.energy = meter.read(health.gpus ? health.gpus->energy : std::nullopt);
    return health;
  };
}

/// Joules of the node in earlier starts of the run.
double energy_before(const fs::path& file) try {
  const auto row = row_of(last_line(file));
  return row ? row->health.energy.value_or(0) : 0;
} catch (const StorageError&) {  // there is none yet, most often
  return 0;
}
}  // namespace

std::string to_text(const HealthRow& row) {
  return health_line(json_of(row));
}

std::vector<HealthRow> health_rows_of(std::string_view text) {
  std::vector<HealthRow> rows;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (auto row = row_of(std::string(text.substr(0, end)))) rows.push_back(*std::move(row));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rows;
}

std::vector<HealthRow> read_health(const fs::path& run_folder, const std::string& host) {
  std::vector<HealthRow> rows;
  std::error_code error;  // there is no folder, or it cannot be read now
  for (fs::directory_iterator entry(run_folder / kHealthFolder, error), end; !error && entry != end;
       entry.increment(error))
    try {
      if (entry->path().extension() != ".jsonl") continue;  // a file that is thinned out
      if (!host.empty() && entry->path().stem() != host) continue;
      if (auto row = row_of(last_line(entry->path()))) rows.push_back(*std::move(row));
    } catch (const StorageError& failure) {
      log(Severity::debug, "not read: {}", failure.what());
    }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.host < b.host; });
  return rows;
}

HealthLog::HealthLog(const fs::path& run_folder, std::string host, std::uint64_t most_bytes, Clock::duration period,
                     std::function<health::NodeHealth()> read) {
  const SignalsBlocked blocked;
  const auto path = resolved(run_folder) / kHealthFolder / (host + ".jsonl");
  thread_ =
      std::thread([shared = shared_, file = path, host = std::move(host), most_bytes, period, read = std::move(read)] {
        try {
          make_folders(real_file_system(), file.parent_path());
        } catch (const StorageError& error) {
          return log(Severity::warning, "{}; the run goes on without records of health", error.what());
        }
        const double before = energy_before(file);
        ThinnedWriter writer(file, most_bytes);
        const auto state = read ? read : reader();
        bool is_first = true;
        const auto append = [&] {
          HealthRow row{host, seconds_since_1970(), state()};
          if (row.health.energy) *row.health.energy += before;
          Json json = json_of(row);
          if (std::exchange(is_first, false)) json["version"] = kRecordVersion;
          writer.append(health_line(json));
          return row.health.energy.has_value();
        };
        bool tells_energy = false;
        std::unique_lock lock(shared->mutex);
        do {  // at least once, also if it ends at once
          lock.unlock();
          tells_energy = append();
          lock.lock();
          shared->changed.wait_for(lock, period, [&] { return shared->ends; });
        } while (!shared->ends);
        lock.unlock();
        if (tells_energy) append();  // of the time since
        lock.lock();
        shared->has_ended = true;
        shared->changed.notify_all();
      });
}

HealthLog::~HealthLog() {
  constexpr std::chrono::seconds kPatience{2};
  std::unique_lock lock(shared_->mutex);
  shared_->ends = true;
  shared_->changed.notify_all();
  const bool has_ended = shared_->changed.wait_for(lock, kPatience, [this] { return shared_->has_ended; });
  lock.unlock();
  if (has_ended)
    thread_.join();
  else
    thread_.detach();  // a driver or a file system does not answer
}

}  // namespace distdl::observe
