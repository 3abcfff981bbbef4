// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::parallel {
namespace server {

/// When the servers apply the gradients of a step.
enum class Mode {
  synchronous,  ///< the sum of a step's gradients is applied at its end; no bit depends on who computes what
  bounded,      ///< each gradient is applied at once; stale synchronous parallel (Ho et al., NeurIPS 2013)
  asynchronous  ///< as bounded, without a bound
};
constexpr std::array<Named<Mode>, 3> choices_of(Mode /*which*/) {
  return {{
      {Mode::synchronous, "synchronous", "those of a step together: the bytes of replicas"},
      {Mode::bounded, "bounded",
       "each at once; its parameters may lack updates of the last parallel.staleness steps before its own"},
      {Mode::asynchronous, "asynchronous", "each at once, whatever its parameters lack"},
  }};
}

/// How parameters come to the workers of other ranks.
enum class Pulls { automatic, messages, one_sided };
constexpr std::array<Named<Pulls>, 3> choices_of(Pulls /*which*/) {
  return {{
      {Pulls::automatic, "auto", "one_sided where a server has 256 KiB or more of them"},
      {Pulls::messages, "messages", "servers send them"},
      {Pulls::one_sided, "one_sided", "workers read them in the memory of the servers"},
  }};
}

/// Where the servers are.
enum class Placement { colocated, own, own_nodes, by_device };
constexpr std::array<Named<Placement>, 4> choices_of(Placement /*which*/) {
  return {{
      {Placement::colocated, "colocated", "on ranks that have a worker, too, and on as many nodes as possible"},
      {Placement::own, "own", "on the last ranks, which have no worker"},
      {Placement::own_nodes, "own_nodes", "on all ranks of the fewest last nodes that have so many, without a worker"},
      {Placement::by_device, "by_device", "on ranks without a GPU, and workers on those with one; else as \"own\""},
  }};
}
}  // namespace server

struct ServerOptions {
  OneOf<server::Mode> mode = server::Mode::synchronous;
  OneOf<server::Placement> placement = server::Placement::colocated;
  std::int64_t tasks = 0;      ///< servers; 0: one on each rank, or, if on their own, a quarter of the ranks
  std::int64_t workers = 0;    ///< 0: one on each rank, but for ranks of servers on their own
  std::string interface = {};  ///< for the roles' connections, as comm::Options::interface; empty: that one
  std::int64_t steps = 16;     ///< length of a round, at the end of which all ranks meet
  std::int64_t staleness = 4;  ///< with mode = bounded: steps
  OneOf<server::Pulls> pulls = server::Pulls::automatic;
  bool partners = false;          ///< a lost server costs no more than a step, or a round
  double delay_compensation = 0;  ///< with a mode that applies gradients at once; 0: none
};

/// The keys of the parameter server, and its jobs and their tasks, which are in section [cluster].
template <class Visitor>
void describe(ServerOptions& options, Visitor&& visit) {
  visit("parallel.server_mode", options.mode,
        OneOf<server::Mode>::help("with parallel.strategy = \"parameter_server\": when gradients are applied; the "
                                  "result depends on it, and with any but \"synchronous\" on the order in which they "
                                  "arrive"));
  visit(
      "parallel.server_steps", options.steps,
      "with parallel.strategy = \"parameter_server\": the ranks meet after so many steps, and earlier to evaluate, to "
      "save or to stop; with \"synchronous\" the result does not depend on it");
  visit(
      "parallel.server_partners", options.partners,
      "with parallel.strategy = \"parameter_server\": each range is also on a second server, on another node if there "
      "is one, and outlives the loss of one of them; costs messages and memory; the result does not depend on it");
  visit("parallel.server_pulls", options.pulls,
        OneOf<server::Pulls>::help("with parallel.strategy = \"parameter_server\": how parameters come from other "
                                   "ranks; with \"synchronous\" the result does not depend on it"));
  visit("parallel.staleness", options.staleness,
        "with parallel.server_mode = \"bounded\": so many steps before its own may a gradient's parameters lack; the "
        "result depends on it");
  visit("parallel.delay_compensation", options.delay_compensation,
        "with a parallel.server_mode that applies gradients at once: how far they are corrected for updates that their "
        "parameters lacked (DC-ASGD), from 0, not at all, to 10; the result depends on it");
  visit("cluster.ps.tasks", options.tasks,
        "with parallel.strategy = \"parameter_server\": servers, of which a rank has one at most; 0: one on each rank, "
        "or, on their own, a quarter of the ranks or those that cluster.worker.tasks leaves; with \"synchronous\" and "
        "without parallel.compression the result does not depend on it");
  visit("cluster.ps.placement", options.placement,
        OneOf<server::Placement>::help("with parallel.strategy = \"parameter_server\": where the servers are; "
                                       "with \"synchronous\" and without parallel.compression the result does not "
                                       "depend on it"));
  visit(
      "cluster.worker.tasks", options.workers,
      "with parallel.strategy = \"parameter_server\": workers, of which a rank has one at most; 0: one on each rank "
      "that is not a server's own; with \"synchronous\" and without parallel.compression the result does not depend on "
      "it");
  visit("cluster.interface", options.interface,
        "network device for what servers and workers send each other, as comm.interface; \"\": that of "
        "comm.interface");
}

}  // namespace distdl::parallel
