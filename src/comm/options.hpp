// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::comm {

/// The transport of collectives between GPUs.
enum class GpuTransport { automatic, ucx, nccl };
constexpr std::array<Named<GpuTransport>, 3> choices_of(GpuTransport) {
  return {{
      {GpuTransport::automatic, "auto", "NCCL where it is available and no order of additions is required, else UCX"},
      {GpuTransport::ucx, "ucx", ""},
      {GpuTransport::nccl, "nccl", "its sums have bits that depend on the number of ranks"},
  }};
}

struct Options {
  double timeout_seconds = 30;  ///< longest wait for a peer in one operation; after that the peer counts as lost
  double connect_timeout_seconds = 60;   ///< longest wait for all ranks to appear at start
  std::string interface = "auto";        ///< network device for UCX, e.g. "ib0" or "eth0"; "auto" lets UCX choose
  std::int64_t shared_memory_ranks = 0;  ///< consecutive ranks that may share memory; 0: all of a node, 1: none
  OneOf<GpuTransport> gpu_transport = GpuTransport::automatic;
  std::uint32_t generation = 0;  ///< number of the membership; not a key of the job file
};

/// Calls visit(key, field, help) for each key of the job file's section [comm].
template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("comm.timeout_seconds", options.timeout_seconds,
        "longest wait for a peer in one operation, in seconds; after that the peer counts as lost");
  visit("comm.connect_timeout_seconds", options.connect_timeout_seconds,
        "longest wait for all ranks to appear at start, in seconds");
  visit("comm.interface", options.interface,
        "network device for UCX, such as \"ib0\" or \"eth0\"; \"auto\" lets UCX choose");
  visit(
      "comm.shared_memory_ranks", options.shared_memory_ranks,
      "number of consecutive ranks of a node that share memory; 0: all; 1: none, so that all messages use the network");
  visit("comm.gpu_transport", options.gpu_transport,
        OneOf<GpuTransport>::help("transport of collectives between GPUs"));
}

}  // namespace distdl::comm
