// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/process_age.hpp>

namespace distdl {

std::istringstream stat_of_process(std::int64_t pid, std::optional<std::int64_t> thread) {
  std::string line;
  std::getline(
      std::ifstream(thread ? fmt::format("/proc/{}/task/{}/stat", pid, *thread) : fmt::format("/proc/{}/stat", pid)),
      line);
  const auto name_end = line.rfind(')');
  return std::istringstream(name_end == std::string::npos ? "" : line.substr(name_end + 1));
}

std::optional<std::int64_t> start_of_process(std::int64_t pid) {
  std::istringstream rest = stat_of_process(pid);
  std::string word;
  rest >> word;
  if (word == "Z" || word == "X") return std::nullopt;
  constexpr int kStartTime = 22, kState = 3;
  for (int i = kState; i < kStartTime; ++i) rest >> word;
  return rest ? std::optional(std::strtoll(word.c_str(), nullptr, 10)) : std::nullopt;
}

std::optional<std::chrono::milliseconds> age_of_process(std::int64_t pid) {
  const auto start = start_of_process(pid);
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};  // since the boot, also while the machine slept, as the kernel counts the ticks
  if (!start || ticks_per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const std::int64_t milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000 - *start * 1000 / ticks_per_second;
  return std::chrono::milliseconds(std::max<std::int64_t>(0, milliseconds));
}

}  // namespace distdl
