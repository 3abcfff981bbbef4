// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/health/energy_meter.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/metrics/thinning.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {
namespace {
namespace fs = std::filesystem;
constexpr std::size_t kNewestRows = 4096;  ///< bytes, which hold the newest row

/// The text of the last whole line.
std::string last_line(const fs::path& file) {
  std::string tail = read_end_of_regular(file, kNewestRows);
  tail.resize(tail.rfind('\n') == std::string::npos ? 0 : tail.rfind('\n'));
  return tail.substr(tail.rfind('\n') + 1);
}

std::optional<HealthRow> row_of(std::string_view line) {
  const auto row = records::parse_row(line);
  const auto* const health = row ? row->as<records::NodeHealth>() : nullptr;
  if (!health || health->host.empty() || row->time == 0) return std::nullopt;
  return HealthRow{health->host, row->time, *health};
}

records::Row row_of(const HealthRow& row, bool is_first) {
  records::NodeHealth health = row.health;
  health.host = row.host;
  return {.record = std::move(health), .time = row.time, .has_version = is_first};
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
  return text_of(row_of(row, false));
}

std::vector<HealthRow> health_rows_of(std::string_view text) {
  std::vector<HealthRow> rows;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (auto row = row_of(text.substr(0, end))) rows.push_back(*std::move(row));
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
          writer.append(text_of(row_of(row, std::exchange(is_first, false))));
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
