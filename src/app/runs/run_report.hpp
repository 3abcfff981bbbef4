// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/runs/job_states.hpp>
#include <distdl/app/runs/run_state.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/run/ledger.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::app {

/// Contents of "distdl status" for a run.
struct RunReport {
  std::filesystem::path folder;
  std::string id = {};  ///< empty: it has none
  observe::RunSummary summary = {};
  RunState state = {};
  std::vector<JobState> jobs = {};               ///< as Slurm knows them
  std::optional<JobState> job = {};              ///< the job that matters now
  std::vector<observe::BadNode> bad_nodes = {};  ///< nodes that its jobs have left out, newest first
  std::optional<launch::Holder> holder = {};     ///< the "distdl run" that works on it
  std::vector<observe::HealthRow> health = {};   ///< newest row of each of its nodes
  std::optional<double> accounted_energy = {};   ///< joules, as Slurm knows them
};

/// `jobs`: what Slurm says of jobs_of_interest().
RunReport make_report(const std::filesystem::path& folder, observe::RunSummary summary, std::vector<JobState> jobs);

std::string to_text(const RunReport& report);
nlohmann::ordered_json to_json(const RunReport& report);

/// With what the interruptions of each cause cost. `restarts`: those of the same run.
std::string to_text(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts);
nlohmann::ordered_json to_json(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts);
/// Seconds that the restart cost; nothing: the ledger has no such interruption.
std::optional<double> cost_of(const observe::RestartSummary& restart, const observe::Ledger& ledger);

/// "n1 load 0.52, 40% of memory free, waits for memory 12%, 42 throttles, 7 corrected errors of memory". `now`: seconds
/// since 1970.
std::string health_text(const observe::HealthRow& row, double now);

/// "memory step 490, partner step 480".
std::string levels_text(const std::vector<observe::LevelSummary>& levels);

/// "42 s", "12 min", "3 h 5 min", "2 d 4 h".
std::string duration_text(double seconds);
/// Local time.
std::string time_text(double seconds_since_1970);

}  // namespace distdl::app
