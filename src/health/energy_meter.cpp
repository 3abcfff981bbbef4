// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include <distdl/health/energy_meter.hpp>

namespace distdl::health {
namespace {
namespace fs = std::filesystem;

std::optional<double> joules_in(const fs::path& file) {
  constexpr double kMicro = 1e-6;
  std::ifstream in(file);
  double value = 0;
  return in >> value && value >= 0 ? std::optional(value * kMicro) : std::nullopt;
}

/// Those of a package have all of its cores, but not its memory.
bool counts(const fs::path& zone) {
  std::ifstream in(zone / "name");
  std::string name;
  return in >> name && (name.starts_with("package") || name == "dram");
}
}  // namespace

EnergyMeter::EnergyMeter(const fs::path& root) {
  std::error_code error;
  // "intel-rapl-mmio:0" counts the same again.
  for (fs::directory_iterator entry(root / "sys/class/powercap", error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with("intel-rapl:") && counts(entry->path()))
      counters_.push_back({entry->path() / "energy_uj", joules_in(entry->path() / "max_energy_range_uj").value_or(0)});
}

std::optional<double> EnergyMeter::read(const std::optional<double>& gpus) {
  bool is_known = gpus.has_value();
  for (Counter& counter : counters_) {
    const auto now = joules_in(counter.file);
    if (!now) continue;
    is_known = true;
    const double last = std::exchange(counter.last, now).value_or(*now);
    used_ += *now >= last ? *now - last : std::max(0.0, counter.range - last) + *now;
  }
  if (gpus) used_ += std::max(0.0, *gpus - std::exchange(last_of_gpus_, gpus).value_or(*gpus));
  return is_known ? std::optional(used_) : std::nullopt;
}

}  // namespace distdl::health
