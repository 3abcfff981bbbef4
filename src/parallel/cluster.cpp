// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/cluster.hpp>

namespace distdl::parallel {
namespace {
constexpr std::int64_t kMostServers = 128;  ///< beyond, a directory of them does not fit into a message's header
constexpr std::int64_t kMostWorkers = std::int64_t{1} << 30;
constexpr std::int64_t kMostSteps = 1 << 16;
constexpr double kMostCompensation = 10;
constexpr int kWorkersOfAServer = 3;  ///< workers per server where the number of servers is left open

bool are_colocated(const Options& options) {
  return options.servers.placement == server::Placement::colocated;
}

/// `spare`: ranks that are for servers, unless the options say how many there are.
std::int64_t servers_for(const Options& options, int ranks, bool own, std::int64_t spare) {
  const std::int64_t most = std::min<std::int64_t>(own ? ranks - 1 : ranks, kMostServers);
  if (options.servers.tasks > 0) return std::min(options.servers.tasks, most);
  if (!own) return most;
  if (spare > 0) return std::min(spare, most);
  const std::int64_t left =
      options.servers.workers > 0 ? ranks - options.servers.workers : ranks / (kWorkersOfAServer + 1);
  return std::clamp<std::int64_t>(left, 1, most);
}

/// The ranks of each host, in the order of the first of them.
std::vector<std::vector<Rank>> ranks_of_nodes(const std::vector<std::string>& hosts) {
  std::vector<std::vector<Rank>> nodes;
  std::map<std::string, std::size_t> places;
  for (int rank = 0; rank < std::ssize(hosts); ++rank) {
    const auto place = places.try_emplace(hosts[static_cast<std::size_t>(rank)], nodes.size()).first->second;
    if (place == nodes.size()) nodes.emplace_back();
    nodes[place].emplace_back(rank);
  }
  return nodes;
}

/// Chooses so many ranks: at most one more on a node than on another one that has some left, and far apart on each.
std::vector<Rank> spread_over(const std::vector<std::vector<Rank>>& nodes, std::int64_t count) {
  std::vector<std::size_t> counts(nodes.size());
  for (std::int64_t i = 0; i < count; ++i) {
    std::size_t best = nodes.size();
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (counts[n] < nodes[n].size() && (best == nodes.size() || counts[n] < counts[best])) best = n;
    ++counts[best];
  }
  std::vector<Rank> ranks;
  for (std::size_t n = 0; n < nodes.size(); ++n)
    for (std::size_t i = 0; i < counts[n]; ++i) ranks.push_back(nodes[n][i * nodes[n].size() / counts[n]]);
  std::ranges::sort(ranks);
  return ranks;
}

/// Chooses all ranks of the fewest last nodes that have so many, but not of the first node.
std::vector<Rank> of_last_nodes(const std::vector<std::vector<Rank>>& nodes, std::int64_t count) {
  std::vector<Rank> ranks;
  for (std::size_t n = nodes.size() - 1; n > 0 && std::ssize(ranks) < count; --n)
    ranks.insert(ranks.end(), nodes[n].begin(), nodes[n].end());
  std::ranges::sort(ranks);
  ranks.erase(ranks.begin(), ranks.end() - std::min<std::int64_t>(std::ssize(ranks), kMostServers));
  return ranks;
}

/// Returns the last ranks, and those on a GPU only if there are too few others.
std::vector<Rank> last_ranks(int ranks, std::int64_t count, const std::vector<bool>& on_gpu) {
  std::vector<Rank> last;
  for (const bool is_on_gpu : {false, true})
    for (int rank = ranks - 1; rank >= 0 && std::ssize(last) < count; --rank)
      if (on_gpu.at(static_cast<std::size_t>(rank)) == is_on_gpu) last.emplace_back(rank);
  std::ranges::sort(last);
  return last;
}

/// Whether a server is on the node of a worker.
bool share_nodes(const Cluster& cluster) {
  const auto host_of = [&](Rank rank) -> const std::string& {
    return cluster.hosts.at(static_cast<std::size_t>(rank.value));
  };
  return std::ranges::any_of(cluster.servers, [&](Rank server) {
    return std::ranges::any_of(cluster.workers, [&](Rank worker) { return host_of(worker) == host_of(server); });
  });
}

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
  return fmt::format("{}{}, {}{}", text_of(cluster.workers, "worker"), cluster.is_by_device ? " with a GPU" : "",
                     text_of(cluster.servers, "server"), cluster.is_by_device ? " without one" : "");
}

bool Cluster::has_worker(Rank rank) const {
  return std::ranges::binary_search(workers, rank);
}

int Cluster::server_of(Rank rank) const {
  const auto found = std::ranges::lower_bound(servers, rank);
  return found != servers.end() && *found == rank ? static_cast<int>(found - servers.begin()) : -1;
}

Cluster cluster_of(const Options& options, std::vector<std::string> hosts, const std::vector<bool>& on_gpu) {
  const int ranks = static_cast<int>(hosts.size());
  const bool own = !are_colocated(options) && ranks > 1;
  const bool sorts = options.servers.placement == server::Placement::by_device && !on_gpu.empty();
  const auto devices = sorts ? on_gpu : std::vector<bool>(hosts.size());
  const auto gpus = std::ranges::count(devices, true);
  const std::int64_t servers = servers_for(options, ranks, own, gpus > 0 ? ranks - gpus : 0);
  const auto nodes = ranks_of_nodes(hosts);
  Cluster cluster;
  cluster.hosts = std::move(hosts);
  if (!own)
    cluster.servers = spread_over(nodes, servers);
  else if (options.servers.placement == server::Placement::own_nodes && nodes.size() > 1)
    cluster.servers = of_last_nodes(nodes, servers);
  else
    cluster.servers = last_ranks(ranks, servers, devices);
  for (Rank rank(0); rank.value < ranks; ++rank.value) {
    const bool has_one =
        own ? cluster.server_of(rank) < 0 : options.servers.workers == 0 || rank.value < options.servers.workers;
    if (has_one) cluster.workers.push_back(rank);
  }
  const auto is_on_gpu = [&](Rank rank) { return devices.at(static_cast<std::size_t>(rank.value)); };
  cluster.is_by_device =
      std::ranges::all_of(cluster.workers, is_on_gpu) && std::ranges::none_of(cluster.servers, is_on_gpu);
  return cluster;
}

Cluster cluster_of(const Options& options, int ranks) {
  return cluster_of(options, std::vector<std::string>(static_cast<std::size_t>(ranks)));
}

std::string shortage_of(const Options& options, const Cluster& cluster) {
  std::vector<std::string> lacks;
  if (options.servers.tasks > std::ssize(cluster.servers))
    lacks.push_back(fmt::format("{} of {} tasks of \"ps\"", cluster.servers.size(), options.servers.tasks));
  if (options.servers.workers > std::ssize(cluster.workers))
    lacks.push_back(fmt::format("{} of {} tasks of \"worker\"", cluster.workers.size(), options.servers.workers));
  if (options.servers.placement == server::Placement::own_nodes && share_nodes(cluster))
    lacks.emplace_back("no nodes for servers alone");
  if (options.servers.placement == server::Placement::by_device && !cluster.is_by_device)
    lacks.emplace_back("no ranks with a GPU for all workers and without one for all servers");
  return fmt::format("{}", fmt::join(lacks, ", "));
}

void check_servers(const Options& options) {
  if (!row_of(options.strategy).has_servers) return;
  require(options.servers.tasks >= 0 && options.servers.tasks <= kMostServers,
          "cluster.ps.tasks is {}, but must be between 0 and {}", options.servers.tasks, kMostServers);
  require(options.servers.workers >= 0 && options.servers.workers <= kMostWorkers,
          "cluster.worker.tasks is {}, but must be between 0 and {}", options.servers.workers, kMostWorkers);
  require(options.servers.steps >= 1 && options.servers.steps <= kMostSteps,
          "parallel.server_steps is {}, but must be between 1 and {}", options.servers.steps, kMostSteps);
  require(options.servers.staleness >= 0 && options.servers.staleness <= kMostSteps,
          "parallel.staleness is {}, but must be between 0 and {}", options.servers.staleness, kMostSteps);
  require(options.servers.delay_compensation >= 0 && options.servers.delay_compensation <= kMostCompensation,
          "parallel.delay_compensation is {}, but must be between 0 and {}", options.servers.delay_compensation,
          kMostCompensation);
  require(options.servers.delay_compensation == 0 || options.servers.mode != server::Mode::synchronous,
          "parallel.delay_compensation is {}, but with parallel.server_mode = \"synchronous\" no gradient is late: "
          "leave it out, or use \"bounded\" or \"asynchronous\"",
          options.servers.delay_compensation);
}

void check_roles(const Options& options, std::size_t ranks) {
  if (!row_of(options.strategy).has_servers || options.servers.tasks == 0 || options.servers.workers == 0) return;
  const std::int64_t own = options.servers.tasks + options.servers.workers,
                     shared = std::max(options.servers.tasks, options.servers.workers);
  const std::int64_t most = are_colocated(options) ? shared : own;
  require(static_cast<std::int64_t>(ranks) <= std::max<std::int64_t>(most, 1),
          "there are {} ranks, but cluster.ps.tasks = {} and cluster.worker.tasks = {} with cluster.ps.placement = "
          "\"{}\" are roles for {}: start {}{}, or set one of these tasks to 0, which leaves their number open",
          ranks, options.servers.tasks, options.servers.workers, options.servers.placement, most, most,
          are_colocated(options) ? fmt::format(", use \"own\", which are roles for {}", own) : "");
}

void check_nodes_of_servers(const Options& options, int ranks, int nodes) {
  if (!row_of(options.strategy).has_servers || options.servers.placement != server::Placement::own_nodes) return;
  const std::int64_t least = std::max<std::int64_t>(options.servers.tasks, 1);
  const std::int64_t most = static_cast<std::int64_t>(ranks) * (nodes - 1) / nodes;
  require(
      least <= most,
      "cluster.ps.placement = \"own_nodes\" needs nodes with {} rank{} for servers alone, beside one for workers, but "
      "the job has {} rank{} on {} node{}: ask for more nodes, or use \"own\"{}",
      least, least == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
      options.servers.tasks > 1 ? ", or fewer cluster.ps.tasks" : "");
}

}  // namespace distdl::parallel
