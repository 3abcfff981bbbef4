// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/runs/comparison.hpp>
#include <distdl/app/watch/run_view.hpp>

// Data of "distdl report"; page.hpp makes a page of it.
namespace distdl::app {

struct ReportedRun {
  RunView view;
  ComparedRun compared;                           ///< with the name of the run
  std::optional<std::string> job = {};            ///< text of the job file; nothing: not kept
  std::map<std::string, std::string> saved = {};  ///< state of the newest checkpoint; empty: there is none
};

/// Reads what a report tells beside `view`, which is the view of a run folder.
ReportedRun reported_run(const std::string& name, RunView view);

/// All that the page shows. Times are seconds since 1970, and text in local time. `now`: when the report is made.
nlohmann::ordered_json report_data(const std::vector<ReportedRun>& runs, double now);

}  // namespace distdl::app
