// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <distdl/observe/run/run_summary.hpp>

// How "distdl status" shows what each rank has to do, and which one is slow.
namespace distdl::app {

/// "n3 2 microbatches at speed 0.33, n1 5 at 0.98, n2 5 at 1.00; moved 1 time", the slowest node first. Empty if the
/// shares are not known.
std::string shares_text(const observe::ShareSummary& shares);
/// Null if the shares are not known.
nlohmann::ordered_json shares_json(const observe::ShareSummary& shares);
/// As above, for servers: "n3 40000 parameters at speed 0.33, n1 120000 at 1.00; moved 1 time".
std::string ranges_text(const observe::ShareSummary& ranges);
nlohmann::ordered_json ranges_json(const observe::ShareSummary& ranges);

/// "rank 2 (n2): 0.8 s for a microbatch, 4.00 times the median of the others". Empty if nothing was measured, or there
/// is one rank only.
std::string slowest_text(const observe::ShareSummary& shares, double step_seconds);
/// As slowest_text(), in JSON; null where that is empty.
nlohmann::ordered_json slowest_json(const observe::ShareSummary& shares);

/// "measurements left out: 14 of rank 2 (n2), 1 of rank 0 (n1)", the most first. Empty if no rank was suspended.
std::string disturbed_text(const observe::DisturbedSummary& disturbed);
/// A list of the ranks that were suspended; empty if none was.
nlohmann::ordered_json disturbed_json(const observe::DisturbedSummary& disturbed);

}  // namespace distdl::app
