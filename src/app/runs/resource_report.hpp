// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/runs/run_report.hpp>

// Computing and resources of a run, as far as its rows report them. A text is empty where they do not.
namespace distdl::app {

/// "MFU 41.2%, HFU 53.0%": HFU where activations are computed again.
std::string utilization_text(const observe::RunSummary& summary);
/// "MFU 41.2% of 92.1 GFLOP/s, 831 kFLOP per sample".
std::string compute_text(const observe::RunSummary& summary);
/// Memory of rank 0, by kind.
std::string memory_text(const observe::RunSummary& summary);
/// "all_reduce 1200 times, 34 MiB, 1.2 GiB/s", those that have moved most.
std::string collectives_text(const observe::RunSummary& summary);
/// Energy of all nodes that report it, else by Slurm's accounting.
std::string energy_text(const RunReport& report);

/// Adds all of it to the report's JSON; null: not known.
void add_resources(nlohmann::ordered_json& row, const RunReport& report);

}  // namespace distdl::app
