// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/runs/run_report.hpp>
#include <distdl/observe/run/result.hpp>

// Several runs beside each other, for "distdl compare".
namespace distdl::app {

struct ComparedRun {
  std::string name;  ///< as the user called it
  RunReport report;
  observe::Result result = {};                                 ///< as far as the run is
  double wall_seconds = 0;                                     ///< since its first submission or start
  std::optional<std::map<std::string, std::string>> job = {};  ///< TOML values by key; nothing: not kept
};

/// A key that not all runs have with one value. Nothing: the run has no such key, or its job was not kept.
struct KeyDifference {
  std::string key;
  std::vector<std::optional<std::string>> values;  ///< value of each run
};

/// Reads the folder of a run. `report`: of the same run.
ComparedRun compared_run(const std::string& name, RunReport report);
/// As above, with a wall time that is known, in seconds.
ComparedRun compared_run(const std::string& name, RunReport report, double wall_seconds);

/// Keys whose values differ between the runs whose job was kept; without run.dir and the other keys that say where
/// files are written.
std::vector<KeyDifference> differences(const std::vector<ComparedRun>& runs);

/// One line of the table of results: its name, and its text for each run.
struct ResultRow {
  std::string name;
  std::vector<std::string> texts;
};
std::vector<ResultRow> result_rows(const std::vector<ComparedRun>& runs);

std::string to_text(const std::vector<ComparedRun>& runs);
nlohmann::ordered_json to_json(const std::vector<ComparedRun>& runs);

}  // namespace distdl::app
