// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>
#include <string>

#include <distdl/agent/ranks/oom_kills.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;

/// The number behind "oom_kill" in a file of such lines.
std::optional<std::int64_t> oom_kill_in(const fs::path& file) {
  std::ifstream lines(file);
  std::string name;
  for (std::int64_t count = 0; lines >> name >> count;)
    if (name == "oom_kill") return count;
  return std::nullopt;
}

/// A line of /proc/self/cgroup: "0::/job_7/step_0" (v2), "4:memory:/job_7" or "4:cpu,memory:/job_7" (v1).
std::optional<fs::path> file_of(const std::string& line, const fs::path& root) {
  const auto first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
  const fs::path below = fs::path(path).relative_path();
  if (controllers.empty() && line.substr(0, first) == "0") return root / "sys/fs/cgroup" / below / "memory.events";
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "memory") return root / "sys/fs/cgroup/memory" / below / "memory.oom_control";
  return std::nullopt;
}
}  // namespace

OomKills count_oom_kills(const fs::path& root) {
  OomKills kills;
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);)
    if (const auto file = file_of(line, root))
      if (const auto count = oom_kill_in(*file)) kills.of_cgroup = count;
  kills.of_machine = oom_kill_in(root / "proc/vmstat");
  return kills;
}

const char* place_of_oom_kill(const OomKills& before, const OomKills& after) {
  if (before.of_cgroup && after.of_cgroup) return *after.of_cgroup > *before.of_cgroup ? "in its cgroup" : nullptr;
  return before.of_machine && after.of_machine && *after.of_machine > *before.of_machine ? "on its node" : nullptr;
}

}  // namespace distdl::agent
