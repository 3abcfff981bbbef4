// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/runs/cluster_report.hpp>

namespace distdl::app {
namespace {
struct Task {
  const char* job;
  std::size_t number;
  int rank;
  std::string node;
};

std::vector<Task> tasks_of(const observe::ClusterSummary& cluster) {
  std::vector<Task> tasks;
  for (const auto& [job, ranks] : {std::pair("ps", &cluster.servers), std::pair("worker", &cluster.workers)})
    for (std::size_t i = 0; i < ranks->size(); ++i) {
      const int rank = (*ranks)[i].value;
      tasks.push_back({job, i, rank, cluster.hosts.at(static_cast<std::size_t>(rank))});
    }
  return tasks;
}
}  // namespace

std::vector<std::string> task_lines(const observe::ClusterSummary& cluster) {
  constexpr std::size_t kMostShown = 16;
  const auto tasks = tasks_of(cluster);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(tasks.size(), kMostShown); ++i) {
    const auto& [job, number, rank, node] = tasks[i];
    lines.push_back(fmt::format("{:<22}rank {:<5}{}", fmt::format("/job:{}/task:{}", job, number), rank, node));
  }
  if (tasks.size() > kMostShown) lines.push_back(fmt::format("and {} more, see --json", tasks.size() - kMostShown));
  return lines;
}

nlohmann::ordered_json tasks_json(const observe::ClusterSummary& cluster) {
  if (cluster.servers.empty()) return nullptr;
  auto rows = nlohmann::ordered_json::array();
  for (const auto& [job, number, rank, node] : tasks_of(cluster))
    rows.push_back({{"job", job}, {"task", number}, {"rank", rank}, {"node", node}});
  return rows;
}

}  // namespace distdl::app
