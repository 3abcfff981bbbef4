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

/// State of a run, besides its metrics, for "distdl status" and others.
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

nlohmann::ordered_json to_json(const RunReport& report);

/// With what the interruptions of each cause cost. `restarts`: those of the same run.
std::string to_text(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts);
nlohmann::ordered_json to_json(const observe::Ledger& ledger, const std::vector<observe::RestartSummary>& restarts);
/// Seconds that the restart cost; nothing: the ledger has no such interruption.
std::optional<double> cost_of(const observe::RestartSummary& restart, const observe::Ledger& ledger);

/// "n1 load 0.52, 40% of memory free, waits for memory 12%, 42 throttles, 7 corrected errors of memory", of one of the
/// rows of `report.health`; "n2 lost 12 min ago" of a node that was lost and has not told of itself since. `now`:
/// seconds since 1970.
std::string health_text(const RunReport& report, const observe::HealthRow& row, double now);

/// "memory step 490, partner step 480".
std::string levels_text(const std::vector<observe::LevelSummary>& levels);

/// When Slurm will end the job of a live run, in seconds since 1970.
std::optional<double> end_of_job(const RunReport& report);

/// "37.3 ms", "2.8 s"; "0 s" below half a microsecond.
std::string short_time_text(double seconds);
/// "42 s", "12 min", "3 h 5 min", "2 d 4 h".
std::string duration_text(double seconds);
/// Local time.
std::string time_text(double seconds_since_1970);

}  // namespace distdl::app
