// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/watch/run_reader.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/console.hpp>

namespace distdl::app {
namespace {
struct StatusArguments {
  RunArgument run;
  bool goodput = false, json = false;
};

void show_status(const StatusArguments& arguments) {
  const auto folder = arguments.run.find();
  auto view = RunFiles({folder}).read().front();
  auto& summary = view.report.summary;
  if (!summary.evaluation) summary.evaluation = observe::find_evaluation(folder);
  if (arguments.json) {
    auto row = status_json(view);
    row["ledger"] = app::to_json(view.ledger, summary.restarts);
    fmt::print("{}\n", row.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  const auto times = arguments.goodput ? "\n" + app::to_text(view.ledger, summary.restarts) : "";
  const Console console(STDOUT_FILENO);
  const int columns = console.is_terminal() ? console.width() : 0;
  print_paged(status_text(view, verbosity() == Verbosity::verbose, columns) + times);
}
}  // namespace

void add_status_command(Command app) {
  auto command = app.add_subcommand(
      "status", "Show what a run is doing: state, job, progress, time left, speed, loss, checkpoint, restarts");
  auto arguments = std::make_shared<StatusArguments>();
  arguments->run.add_to(command);
  command.add_flag("--goodput", arguments->goodput,
                   "Also show where the time since the first submission went, over all jobs and restarts");
  command.add_flag("--json", arguments->json, "Print JSON, with the times of --goodput");
  command.notes(
      "With --verbose it also shows compute, memory, energy, ranks, nodes and more restarts with their causes.");
  command.examples({{"distdl status run", "See what the run in a folder is doing"},
                    {"distdl status run --verbose", "See all that is known of it, also of its nodes"},
                    {"distdl status 4711 --goodput", "See where the time of a job's run went"}});
  command.callback([arguments] { show_status(*arguments); });
}

}  // namespace distdl::app
