// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/sweep/sweep_report.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::app {
namespace {
struct LsArguments {
  std::vector<std::string> folders;
  bool prune = false, json = false;
};

/// With a warning if it is not.
bool is_readable(const std::filesystem::path& folder) try {
  require_readable(folder);
  return true;
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return false;
}

/// The folders of the runs to list: those named, else those of the index; each once.
std::vector<std::filesystem::path> folders_of(const LsArguments& arguments) {
  std::vector<std::filesystem::path> folders;
  const auto add = [&](const std::filesystem::path& folder) {
    const auto path = std::filesystem::absolute(folder).lexically_normal();
    if (std::find(folders.begin(), folders.end(), path) == folders.end()) folders.push_back(path);
  };
  for (const auto& run : find_runs(arguments.folders)) add(run.folder);
  if (!arguments.folders.empty()) return folders;
  for (const auto& run : observe::known_runs()) {
    std::error_code error;
    const bool is_there = std::filesystem::is_directory(run.folder, error);
    if (is_there && is_readable(run.folder)) add(run.folder);
    if (!is_there && arguments.prune) observe::forget_run(run.id);
  }
  return folders;
}

/// With one question to Slurm for all that may be alive.
std::vector<RunReport> reports_of(const std::vector<std::filesystem::path>& folders) {
  std::vector<observe::RunSummary> summaries;
  std::vector<std::string> jobs;
  for (const auto& folder : folders) {
    summaries.push_back(observe::summarize_run(folder));
    const auto phase = summaries.back().phase;
    if (phase == observe::Phase::finished || phase == observe::Phase::ended) continue;
    const auto more = jobs_of_interest(summaries.back());
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  const auto states = ask_job_states(jobs);
  std::vector<RunReport> reports;
  for (std::size_t i = 0; i < folders.size(); ++i)
    reports.push_back(make_report(folders[i], std::move(summaries[i]), states));
  std::sort(reports.begin(), reports.end(),
            [](const RunReport& a, const RunReport& b) { return a.summary.last_time > b.summary.last_time; });
  return reports;
}

/// Numbers of the runs that have ended, and of those among them that have finished.
struct Success {
  int finished = 0, ended = 0;
  explicit Success(const std::vector<RunReport>& reports) {
    for (const auto& report : reports) {
      const bool has_begun = report.state.word != "new" && report.state.word != "stopped";
      if (report.state.is_live || !has_begun) continue;
      ++ended;
      finished += report.state.word == "finished";
    }
  }
};

/// The sweeps that these runs are part of, each once, as far as they can be read.
std::string sweeps_of(const std::vector<RunReport>& reports) {
  std::set<std::filesystem::path> folders;
  for (const auto& report : reports) {
    std::error_code error;
    const auto folder = report.folder.parent_path();
    if (std::filesystem::is_regular_file(folder / kSweepFile, error)) folders.insert(folder);
  }
  std::string text;
  for (const auto& folder : folders) try {
      Sweep sweep = read_sweep(folder / kSweepFile);
      sweep.folder = folder.string();
      text += sweep_line(sweep, read_swept_runs(sweep, folder));
    } catch (const Error& error) {
      log(Severity::warning, "{}", error.what());
    }
  return text;
}

void print_reports(const std::vector<RunReport>& reports) {
  if (reports.empty()) return fmt::print("no runs are known here; a run is noted when it is submitted or started\n");
  auto text = fmt::format("{:<13} {:<10} {:<10} {:>17} {:>8}  {:<19}  {}\n", "RUN", "STATE", "JOB", "STEP", "RESTARTS",
                          "LAST SIGN", "FOLDER");
  for (const auto& report : reports) {
    const auto& summary = report.summary;
    const auto step = summary.step ? fmt::format("{}{}", *summary.step,
                                                 summary.total ? fmt::format("/{}", *summary.total) : std::string())
                                   : std::string("-");
    text += fmt::format("{:<13} {:<10} {:<10} {:>17} {:>8}  {:<19}  {}\n", report.id.empty() ? "-" : report.id,
                        report.state.word,
                        report.job            ? report.job->job
                        : summary.job.empty() ? "-"
                                              : summary.job,
                        step, summary.restarts.size(), summary.last_time > 0 ? time_text(summary.last_time) : "-",
                        printable(report.folder.string()));
  }
  const Success success(reports);
  if (success.ended > 0)
    text += fmt::format("{} of {} runs that have ended finished ({:.0f}%)\n", success.finished, success.ended,
                        100.0 * success.finished / success.ended);
  print_paged(text + sweeps_of(reports));
}

void list_runs(const LsArguments& arguments) {
  const auto reports = reports_of(folders_of(arguments));
  if (!arguments.json) return print_reports(reports);
  auto rows = nlohmann::ordered_json::array();
  for (const auto& report : reports) rows.push_back(to_json(report));
  const Success success(reports);
  const nlohmann::ordered_json all{{"runs", std::move(rows)}, {"ended", success.ended}, {"finished", success.finished}};
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}
}  // namespace

void add_ls_command(Command app) {
  auto command = app.add_subcommand("ls", "List your runs, with their states, and how many of them finished");
  auto arguments = std::make_shared<LsArguments>();
  command.add_option("RUN", arguments->folders,
                     "Only these, also runs that are not in your index; see \"distdl status\"");
  command.add_flag("--prune", arguments->prune, "Forget runs whose folders are gone");
  command.add_flag("--json", arguments->json, "Print JSON");
  command.examples({{"distdl ls", "List all your runs"},
                    {"distdl ls run small", "List only these"},
                    {"distdl ls --prune", "Forget runs whose folders are gone"}});
  command.callback([arguments] { list_runs(*arguments); });
}

}  // namespace distdl::app
