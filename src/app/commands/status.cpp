// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/observe/run/ledger.hpp>

namespace distdl::app {
namespace {
struct StatusArguments {
  RunArgument run;
  bool goodput = false, json = false;
};

void show_status(const StatusArguments& arguments) {
  const auto folder = arguments.run.find();
  auto summary = observe::summarize_run(folder);
  if (!summary.evaluation) summary.evaluation = observe::find_evaluation(folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  const RunReport report = make_report(folder, std::move(summary), std::move(jobs));
  std::optional<observe::Ledger> ledger;
  if (arguments.goodput || arguments.json)
    ledger = observe::read_ledger(folder, report.state.is_live ? std::optional(seconds_since_1970()) : std::nullopt);
  if (arguments.json) {
    auto row = to_json(report);
    row["ledger"] = app::to_json(*ledger, report.summary.restarts);
    fmt::print("{}\n", row.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  print_paged(to_text(report) + (ledger ? "\n" + to_text(*ledger, report.summary.restarts) : ""));
}
}  // namespace

void add_status_command(Command app) {
  auto command = app.add_subcommand(
      "status", "Show what a run is doing: state, job, progress, checkpoint, restarts with their causes, time left");
  auto arguments = std::make_shared<StatusArguments>();
  arguments->run.add_to(command);
  command.add_flag("--goodput", arguments->goodput,
                   "Also show where the time since the first submission went, over all jobs and restarts");
  command.add_flag("--json", arguments->json, "Print JSON, with the times of --goodput");
  command.examples({{"distdl status run", "See what the run in a folder is doing"},
                    {"distdl status 4711 --goodput", "See where the time of a job's run went"}});
  command.callback([arguments] { show_status(*arguments); });
}

}  // namespace distdl::app
