// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/comparison.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
struct CompareArguments {
  std::vector<std::string> runs;
  bool json = false;
};

/// Slurm is asked only about a run that has not ended.
RunReport report_of(const std::filesystem::path& folder) {
  auto summary = observe::summarize_run(folder);
  const bool has_ended = summary.phase == observe::Phase::finished || summary.phase == observe::Phase::ended;
  auto jobs = has_ended ? std::vector<JobState>() : ask_job_states(jobs_of_interest(summary));
  return make_report(folder, std::move(summary), std::move(jobs));
}

void compare(const CompareArguments& arguments) {
  const auto found = find_runs(arguments.runs);
  require<UsageError>(found.size() > 1, "{}",
                      "\"distdl compare\" needs two runs or more, as in: distdl compare run other");
  std::vector<ComparedRun> runs;
  runs.reserve(found.size());
  for (const auto& [name, folder] : found) runs.push_back(compared_run(name, report_of(folder)));
  if (arguments.json)
    fmt::print("{}\n", to_json(runs).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}", to_text(runs));
}
}  // namespace

void add_compare_command(Command app) {
  auto command = app.add_subcommand("compare", "Show how the jobs of several runs differ, and their results");
  auto arguments = std::make_shared<CompareArguments>();
  command
      .add_option("RUN", arguments->runs,
                  "Run folders, job files, ids of runs or of their Slurm jobs: two or more; or the folder of a sweep")
      .required();
  command.add_flag("--json", arguments->json, "Print JSON");
  command.examples({{"distdl compare run small", "Compare two runs"},
                    {"distdl compare run small --json", "Read the differences with a program"}});
  command.callback([arguments] { compare(*arguments); });
}

}  // namespace distdl::app
