// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/records/field.hpp>

// The nodes of a run: their state, and those that it avoids.
namespace distdl::records {

/// All GPUs of a node together. Nothing where a GPU does not tell.
struct GpuHealth {
  int gpus = 0;
  std::optional<double> hottest = {};  ///< degrees Celsius
  int throttled = 0;                   ///< GPUs whose clocks are lowered by heat or by the power supply
  std::optional<std::int64_t> corrected_errors = {},
                              uncorrected_errors = {};  ///< memory errors since the driver began; up to kMostErrors
  std::optional<double> energy = {};                    ///< joules since the driver began; of GPUs from 2017 on
  static constexpr std::int64_t kMostErrors = 1'000'000'000;
};

void describe(Is<GpuHealth> auto& r, auto&& visit) {
  visit("count", r.gpus, "", "");
  visit("throttled", r.throttled, "", "");
  visit("hottest", r.hottest, "degrees Celsius", "");
  visit("corrected_errors", r.corrected_errors, "", "");
  visit("uncorrected_errors", r.uncorrected_errors, "", "");
}

/// A node's own account of its state. Nothing where the system does not tell, as in a container.
struct NodeHealth {
  static constexpr Kind kKind{
      "node_health", "the state of a node, every 30 seconds; in the file of its own", {}, File::health};

  std::optional<double> load = {};  ///< mean number of processes that want a processor, of one minute, per processor
  // Shares of the last minute in which a process waited, 0 .. 1; Linux calls this pressure.
  std::optional<double> cpu_pressure = {}, memory_pressure = {}, io_pressure = {};
  std::optional<double> free_memory = {};             ///< share of the memory that a new process can have, 0 .. 1
  std::optional<std::int64_t> throttles = {};         ///< since boot: how often processors were slowed down by heat
  std::optional<std::int64_t> corrected_errors = {};  ///< memory errors since boot
  std::optional<std::int64_t> uncorrected_errors = {};
  std::optional<double> energy = {};  ///< joules, see health::EnergyMeter
  std::optional<GpuHealth> gpus = {};
  std::string host = {};
};

void describe(Is<NodeHealth> auto& r, auto&& visit) {
  visit("host", r.host, "", "of the node");
  visit("load", r.load, "processes per processor", "that run, or wait for a processor or a disk, mean of a minute");
  visit("cpu_pressure", r.cpu_pressure, "0 .. 1", "share of the last minute in which a process waited for a processor");
  visit("memory_pressure", r.memory_pressure, "0 .. 1", "likewise for memory");
  visit("io_pressure", r.io_pressure, "0 .. 1", "likewise for disks");
  visit("free_memory", r.free_memory, "0 .. 1", "share of the memory that a new process can have");
  visit("throttles", r.throttles, "", "how often processors were slowed down by heat, since boot");
  visit("corrected_errors", r.corrected_errors, "", "of the memory, since boot");
  visit("uncorrected_errors", r.uncorrected_errors, "", "likewise");
  visit("energy_joules", r.energy, "joules",
        "of the node in all starts of the run until now; where its counters can be read");
  visit("gpus", r.gpus, "",
        "an object, where there are GPUs: their `count`, how many are `throttled`, degrees of the `hottest`, their "
        "`corrected_errors` and `uncorrected_errors`");
}

/// Numbers that no node has are dropped, so that sums of them stay numbers.
void mend(NodeHealth& health);

/// A node is likely to fail soon.
struct NodeAtRisk {
  static constexpr Kind kKind{"node_at_risk", "a node is likely to fail soon"};

  std::string host = {};
  std::string cause = {};  ///< the feature that says so most
  double risk = 0;         ///< 0 .. 1
};

void describe(Is<NodeAtRisk> auto& r, auto&& visit) {
  visit("host", r.host, "", "of the node");
  visit("cause", r.cause, "", "the sign that says so most");
  visit("risk", r.risk, "0 .. 1", "that it fails soon");
}

/// A node is avoided from now on. bad-nodes.jsonl is for the program and for people, and not in docs/metrics.md.
struct NodeIsBad {
  static constexpr Kind kKind{"bad_node", "a node is avoided from now on", {}, File::bad_nodes};

  std::string local_time = {};  ///< "2026-03-01 12:00:00"
  std::string node = {}, cause = {}, job = {};
};

void describe(Is<NodeIsBad> auto& r, auto&& visit) {
  visit("local_time", r.local_time, "", "");
  visit("nodes", r.node, "", kNodesMeaning);
  visit("cause", r.cause, "", kCauseMeaning);
  visit("job", r.job, "", kJobMeaning);
}

/// A job was submitted, or requeued, that excludes these nodes.
struct NodesExcluded {
  static constexpr Kind kKind{"excluded", "a job excludes nodes", {}, File::bad_nodes};

  std::string local_time = {};
  std::vector<std::string> nodes = {};
  std::string job = {};
};

void describe(Is<NodesExcluded> auto& r, auto&& visit) {
  visit("local_time", r.local_time, "", "");
  visit("nodes", joined(r.nodes), "", kNodesMeaning);
  visit("job", r.job, "", kJobMeaning);
}

}  // namespace distdl::records
