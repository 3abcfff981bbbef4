// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/parallel/options.hpp>

// The parameter server: which ranks have which roles.
namespace distdl::parallel {

/// Ranks by role, ascending. Rank 0 has the scheduler, too.
struct Cluster {
  std::vector<Rank> servers;  ///< server i has range i of the arenas
  std::vector<Rank> workers;
  std::vector<std::string> hosts;  ///< host of each rank
  bool is_by_device = false;       ///< workers have GPUs, and servers have none

  bool has_worker(Rank rank) const;
  /// The number of the rank's server; -1: it has none.
  int server_of(Rank rank) const;
};

/// "3 workers on ranks 0-2, 1 server on rank 3".
std::string text_of(const Cluster& cluster);

/// The roles of the ranks on these hosts. Where the options ask for more ranks or nodes than there are, there are fewer
/// tasks, or servers share a node with workers; one rank has all roles. `on_gpu`: whether each rank computes on a GPU;
/// empty: all compute alike.
Cluster cluster_of(const Options& options, std::vector<std::string> hosts, const std::vector<bool>& on_gpu = {});
/// Returns the roles of so many ranks on one host.
Cluster cluster_of(const Options& options, int ranks);
/// Returns the tasks that the options ask for and the cluster lacks, such as "2 of 3 tasks of \"ps\""; empty: none.
std::string shortage_of(const Options& options, const Cluster& cluster);

/// True if the result has the same bytes each time, on any ranks. Servers that apply each gradient at once do not
/// repeat the order of gradients.
constexpr bool repeats_bits(const Options& options) {
  return !row_of(options.strategy).has_servers || options.servers.mode == server::Mode::synchronous;
}

/// True if the same parameters give the same loss each time: not where their code depends on measured times.
constexpr bool repeats_losses(const Options& options) {
  return repeats_bits(options) &&
         (!row_of(options.strategy).has_servers || options.compression.encoding != Compression::automatic);
}

/// True if servers keep their ranges, and those of which they are the partners, for a start after a loss.
constexpr bool keeps_ranges(const Options& options) {
  return row_of(options.strategy).has_servers && options.servers.partners;
}

/// Checks the keys of the parameter server. Throws ConfigError.
void check_servers(const Options& options);
/// Throws ConfigError if some of so many ranks would have no role.
void check_roles(const Options& options, std::size_t ranks);
/// Throws ConfigError if so many ranks on so many nodes have no nodes for servers alone that the options ask for.
void check_nodes_of_servers(const Options& options, int ranks, int nodes);

}  // namespace distdl::parallel
