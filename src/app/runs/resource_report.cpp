// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/resource_report.hpp>
#include <distdl/base/byte_text.hpp>

namespace distdl::app {
namespace {
using ResourceJson = nlohmann::ordered_json;

/// "831 kFLOP".
std::string flops_text(double flops) {
  static constexpr std::array kUnits{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  constexpr double kStep = 1000;
  std::size_t unit = 0;
  for (; flops >= kStep && unit + 1 < kUnits.size(); ++unit) flops /= kStep;
  return fmt::format("{:.3g} {}", flops, kUnits[unit]);
}

std::array<std::pair<const char*, double>, 5> memory_by_kind(const records::ResourcesUsed& used) {
  return {{{"parameters", used.parameters},
           {"gradients", used.gradients},
           {"optimizer", used.optimizer},
           {"activations", used.activations},
           {"workspace", used.workspace}}};
}

/// Joules of all nodes that tell, else those that Slurm has counted; nothing: none does.
std::optional<double> energy_of(const RunReport& report) {
  std::optional<double> joules;
  for (const auto& row : report.health)
    if (row.health.energy) joules = joules.value_or(0) + *row.health.energy;
  return joules ? joules : report.accounted_energy;
}

/// null: not known.
ResourceJson json_of(const std::optional<double>& value) {
  return value ? ResourceJson(*value) : ResourceJson(nullptr);
}

/// 0: not known.
ResourceJson json_of_known(double value) {
  return json_of(value > 0 ? std::optional(value) : std::nullopt);
}

ResourceJson resources_json(const std::optional<records::ResourcesUsed>& used) {
  if (!used) return nullptr;
  ResourceJson row{{"step", used->step.value}};
  for (const auto& [name, bytes] : memory_by_kind(*used)) row[fmt::format("{}_bytes", name)] = bytes;
  row["peak_bytes"] = json_of_known(used->peak);
  row["collectives"] = ResourceJson::array();
  for (std::size_t i = 0; i < used->collectives.size(); ++i)
    row["collectives"].push_back({{"name", used->collectives[i]},
                                  {"calls", used->calls[i]},
                                  {"bytes", used->moved_bytes[i]},
                                  {"seconds", used->collective_seconds[i]}});
  return row;
}
}  // namespace

std::string utilization_text(const observe::RunSummary& summary) {
  if (!summary.mfu) return "";
  const auto hfu = summary.hfu ? fmt::format(", HFU {:.1f}%", 100 * *summary.hfu) : "";
  return fmt::format("MFU {:.1f}%{}", 100 * *summary.mfu, hfu);
}

std::string compute_text(const observe::RunSummary& summary) {
  const auto& compute = summary.compute;
  if (compute.model_flops <= 0) return "";
  const auto work = flops_text(compute.model_flops) + " per sample";
  if (compute.peak_flops <= 0)
    return work + "; no MFU, because no peak is known: \"distdl bench calibrate JOB\" on such a node measures it";
  const auto peak = flops_text(compute.peak_flops) + "/s";
  if (!summary.mfu) return fmt::format("{}, peak {}", work, peak);
  return fmt::format("{} of {}, {}", utilization_text(summary), peak, work);
}

std::string memory_text(const observe::RunSummary& summary) {
  if (!summary.resources) return "";
  std::vector<std::string> parts;
  double all = 0;
  for (const auto& [name, bytes] : memory_by_kind(*summary.resources)) {
    parts.push_back(fmt::format("{} {}", name, bytes_text(bytes)));
    all += bytes;
  }
  const double peak = summary.resources->peak;
  return fmt::format("rank 0: {}; {} in all{}", fmt::join(parts, ", "), bytes_text(all),
                     peak > 0 ? fmt::format(", its process had up to {}", bytes_text(peak)) : "");
}

std::string collectives_text(const observe::RunSummary& summary) {
  if (!summary.resources || summary.ranks < 2) return "";
  constexpr std::size_t kMost = 3;
  const auto& used = *summary.resources;
  std::vector<std::size_t> all;  // places in the lists
  for (std::size_t i = 0; i < used.collectives.size(); ++i)
    if (used.moved_bytes[i] > 0) all.push_back(i);
  std::ranges::stable_sort(all, std::ranges::greater(), [&used](std::size_t i) { return used.moved_bytes[i]; });
  if (all.size() > kMost) all.resize(kMost);
  std::vector<std::string> parts;
  for (const std::size_t i : all) {
    const auto& name = used.collectives[i];
    const auto calls = used.calls[i];
    const auto moved = static_cast<double>(used.moved_bytes[i]);
    const double seconds = used.collective_seconds[i];
    parts.push_back(fmt::format("{} {} time{}, {}{}", name, calls, calls == 1 ? "" : "s", bytes_text(moved),
                                seconds > 0 ? fmt::format(", {}/s", bytes_text(moved / seconds)) : ""));
  }
  if (parts.empty()) return "";
  return fmt::format("rank 0, up to {}: {}", records::step_text(used.step), fmt::join(parts, "; "));
}

std::string energy_text(const RunReport& report) {
  constexpr double kKilowattHour = 3.6e6;
  const auto joules = energy_of(report);
  if (!joules) return "";
  const auto nodes =
      std::ranges::count_if(report.health, [](const auto& row) { return row.health.energy.has_value(); });
  if (nodes == 0) return fmt::format("{:.3g} kWh by Slurm's accounting", *joules / kKilowattHour);
  return fmt::format("{:.3g} kWh of {} node{}", *joules / kKilowattHour, nodes, nodes == 1 ? "" : "s");
}

void add_resources(ResourceJson& row, const RunReport& report) {
  const auto& summary = report.summary;
  const auto& compute = summary.compute;
  row["mfu"] = json_of(summary.mfu);
  row["hfu"] = json_of(summary.hfu);
  row["flops_per_sample"] = json_of_known(compute.model_flops);
  row["hardware_flops_per_sample"] = json_of_known(compute.hardware_flops);
  row["peak_flops_per_s"] = json_of_known(compute.peak_flops);
  row["resources"] = resources_json(summary.resources);
  row["energy_joules"] = json_of(energy_of(report));
}

}  // namespace distdl::app
