// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <sched.h>

#include <distdl/base/processors.hpp>

namespace distdl {
namespace {
/// Where Linux shows a processor; 0 for what it does not show.
struct Place {
  int domain = 0, core = 0, processor = 0;
};

Place place_of(int processor) {
  const std::filesystem::path folder = fmt::format("/sys/devices/system/cpu/cpu{}", processor);
  Place place{0, 0, processor};
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    constexpr std::string_view kDomain = "node";
    if (name.starts_with(kDomain))
      std::from_chars(name.data() + kDomain.size(), name.data() + name.size(), place.domain);
  }
  std::ifstream(folder / "topology/thread_siblings_list") >> place.core;  // begins with the first of its threads
  return place;
}
}  // namespace

std::vector<int> usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;  // more than 1024
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  return processors;
}

std::vector<int> by_place(std::vector<int> processors) {
  std::vector<Place> places(processors.size());
  std::ranges::transform(processors, places.begin(), &place_of);
  std::ranges::sort(places, {}, [](const Place& one) { return std::tuple(one.domain, one.core, one.processor); });
  std::ranges::transform(places, processors.begin(), &Place::processor);
  return processors;
}

std::vector<std::vector<int>> equal_parts(const std::vector<int>& processors, std::size_t parts) {
  std::vector<std::vector<int>> all(parts);
  const auto share = static_cast<std::ptrdiff_t>(processors.size() / parts);
  for (auto begin = processors.begin(); auto& part : all) {
    part.assign(begin, begin + share);
    begin += share;
  }
  return all;
}

std::string processor_name(std::istream& cpuinfo) {
  std::string implementer, part;
  for (std::string line; std::getline(cpuinfo, line);) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos) continue;
    auto value = line.substr(colon + 2);
    if (line.starts_with("model name")) return value;
    if (line.starts_with("CPU implementer")) implementer = value;
    if (line.starts_with("CPU part")) part = value;
  }
  return part.empty() ? "unknown" : fmt::format("Arm implementer {} part {}", implementer, part);
}

bool bind_this_thread(const std::vector<int>& processors) {
  if (processors.empty()) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<std::size_t>(processor), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

BoundThread::BoundThread(const std::vector<int>& processors) {
  if (processors.empty()) return;
  before_ = usable_processors();
  bind_this_thread(processors);
}

}  // namespace distdl
