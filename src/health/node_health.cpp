// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <distdl/health/node_health.hpp>

namespace distdl::health {
namespace {
namespace fs = std::filesystem;

template <class Number>
std::optional<Number> first_number(const fs::path& file) {
  std::ifstream in(file);
  Number number{};
  return in >> number ? std::optional(number) : std::nullopt;
}

/// Processors have numbers from 0; those that are off have a folder as well.
std::vector<fs::path> processors(const fs::path& root) {
  std::vector<fs::path> found;
  for (int number = 0;; ++number) {
    fs::path folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(number));
    std::error_code error;
    if (!fs::exists(folder, error)) return found;
    found.push_back(std::move(folder));
  }
}

/// The line "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", where avg60 is in percent.
std::optional<double> pressure(const fs::path& file) {
  std::ifstream in(file);
  for (std::string word; in >> word;)
    if (word.starts_with("avg60=")) return std::clamp(std::strtod(word.c_str() + 6, nullptr) / 100, 0.0, 1.0);
  return std::nullopt;
}

std::optional<double> free_memory(const fs::path& file) {
  std::ifstream in(file);
  double total = 0, available = -1;
  std::string key, unit;
  for (double value = 0; in >> key >> value; std::getline(in, unit)) {
    if (key == "MemTotal:") total = value;
    if (key == "MemAvailable:") available = value;
  }
  if (total <= 0 || available < 0) return std::nullopt;
  return std::clamp(available / total, 0.0, 1.0);
}

/// Nothing if no file has a number.
void add(std::optional<std::int64_t>& sum, std::optional<std::int64_t> more) {
  if (more && *more >= 0) sum = sum.value_or(0) + *more;
}

/// Memory controllers are mc0, mc1 ...
void add_memory_errors(NodeHealth& health, const fs::path& controllers) {
  std::error_code error;
  for (fs::directory_iterator entry(controllers, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with("mc")) continue;
    add(health.corrected_errors, first_number<std::int64_t>(entry->path() / "ce_count"));
    add(health.uncorrected_errors, first_number<std::int64_t>(entry->path() / "ue_count"));
  }
}
}  // namespace

NodeHealth read_node_health(const fs::path& root) {
  NodeHealth health;
  const auto all = processors(root);
  if (const auto load = first_number<double>(root / "proc/loadavg"); load && !all.empty())
    health.load = *load / static_cast<double>(all.size());
  health.cpu_pressure = pressure(root / "proc/pressure/cpu");
  health.memory_pressure = pressure(root / "proc/pressure/memory");
  health.io_pressure = pressure(root / "proc/pressure/io");
  health.free_memory = free_memory(root / "proc/meminfo");
  for (const auto& processor : all)
    add(health.throttles, first_number<std::int64_t>(processor / "thermal_throttle/core_throttle_count"));
  add_memory_errors(health, root / "sys/devices/system/edac/mc");
  return health;
}

}  // namespace distdl::health
