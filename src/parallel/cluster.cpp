// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/cluster.hpp>

namespace distdl::parallel {
namespace {
constexpr std::int64_t kMostServers = 128;  ///< beyond, a directory of them does not fit into a message's header
constexpr std::int64_t kMostSteps = 1 << 16;
constexpr double kMostCompensation = 10;
constexpr int kWorkersOfAServer = 3;  ///< where the number of servers is left open

int servers_for(const Options& options, int ranks, bool own) {
  const int most = static_cast<int>(std::min<std::int64_t>(own ? ranks - 1 : ranks, kMostServers));
  if (options.servers > 0) return static_cast<int>(std::min<std::int64_t>(options.servers, most));
  return own ? std::clamp(ranks / (kWorkersOfAServer + 1), 1, most) : most;
}
}  // namespace

namespace {
std::string text_of(const std::vector<Rank>& ranks, const char* role) {
  const bool is_row = ranks.back().value - ranks.front().value + 1 == std::ssize(ranks);
  std::string numbers;
  for (const Rank rank : ranks) numbers += fmt::format("{}{}", numbers.empty() ? "" : " ", rank);
  if (is_row && ranks.size() > 2) numbers = fmt::format("{}-{}", ranks.front(), ranks.back());
  const char* const several = ranks.size() == 1 ? "" : "s";
  return fmt::format("{} {}{} on rank{} {}", ranks.size(), role, several, several, numbers);
}
}  // namespace

std::string text_of(const Cluster& cluster) {
  return fmt::format("{}, {}", text_of(cluster.workers, "worker"), text_of(cluster.servers, "server"));
}

bool Cluster::has_worker(Rank rank) const {
  return std::ranges::binary_search(workers, rank);
}

int Cluster::server_of(Rank rank) const {
  const auto found = std::ranges::lower_bound(servers, rank);
  return found != servers.end() && *found == rank ? static_cast<int>(found - servers.begin()) : -1;
}

Cluster cluster_of(const Options& options, int ranks) {
  const bool own = options.server_placement == server::Placement::own && ranks > 1;
  const int servers = servers_for(options, ranks, own);
  Cluster cluster;
  for (int i = 0; i < servers; ++i) cluster.servers.emplace_back(own ? ranks - servers + i : i * ranks / servers);
  for (int rank = 0; rank < (own ? ranks - servers : ranks); ++rank) cluster.workers.emplace_back(rank);
  return cluster;
}

void check_servers(const Options& options) {
  if (options.strategy != Strategy::parameter_server) return;
  require(options.servers >= 0 && options.servers <= kMostServers,
          "parallel.servers is {}, but must be between 0 and {}", options.servers, kMostServers);
  require(options.server_steps >= 1 && options.server_steps <= kMostSteps,
          "parallel.server_steps is {}, but must be between 1 and {}", options.server_steps, kMostSteps);
  require(options.staleness >= 0 && options.staleness <= kMostSteps,
          "parallel.staleness is {}, but must be between 0 and {}", options.staleness, kMostSteps);
  require(options.delay_compensation >= 0 && options.delay_compensation <= kMostCompensation,
          "parallel.delay_compensation is {}, but must be between 0 and {}", options.delay_compensation,
          kMostCompensation);
  require(options.delay_compensation == 0 || options.server_mode != server::Mode::synchronous,
          "parallel.delay_compensation is {}, but with parallel.server_mode = \"synchronous\" no gradient is late: "
          "leave it out, or use \"bounded\" or \"asynchronous\"",
          options.delay_compensation);
}

}  // namespace distdl::parallel
