// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/runs/text_table.hpp>
#include <distdl/app/sweep/sweep_report.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/run/run_identity.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;
constexpr std::int64_t kShownRuns = 20;

struct LsArguments {
  std::vector<std::string> folders, states;
  std::optional<std::int64_t> most;  ///< 0: all
  bool here = false, prune = false, json = false;

  /// Machines get all runs, and who names runs all of them, unless a number is given.
  std::size_t limit() const {
    const auto number = most.value_or(json || !folders.empty() ? 0 : kShownRuns);
    return number > 0 ? static_cast<std::size_t>(number) : std::numeric_limits<std::size_t>::max();
  }
};

/// With a warning if it is not.
bool is_readable(const fs::path& folder) try {
  require_readable(folder);
  return true;
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return false;
}

fs::path normal(const fs::path& folder) {
  return fs::absolute(folder).lexically_normal();
}

bool lies_in(const fs::path& folder, const fs::path& outer) {
  const auto inner = folder.lexically_relative(outer);
  return !inner.empty() && *inner.begin() != "..";
}

/// The folders of the runs to list: those named, else those of the index; each once.
std::vector<fs::path> folders_of(const LsArguments& arguments) {
  std::set<fs::path> folders;
  const auto here = normal(fs::current_path());
  const auto add = [&](const fs::path& folder) {
    const auto path = normal(folder);
    if (!arguments.here || lies_in(path, here)) folders.insert(path);
  };
  for (const auto& run : find_runs(arguments.folders)) add(run.folder);
  if (arguments.folders.empty())
    for (const auto& run : observe::known_runs()) {
      std::error_code error;
      const bool is_there = fs::is_directory(run.folder, error);
      if (is_there) add(run.folder);
      if (!is_there && arguments.prune) observe::forget_run(run.id);
    }
  return {folders.begin(), folders.end()};
}

/// When a run was written to last, without reading it.
fs::file_time_type last_write(const fs::path& folder) {
  auto last = fs::file_time_type::min();
  for (const char* const name : {"metrics.jsonl", "journal.jsonl", "RUN"}) {
    std::error_code error;
    if (const auto time = fs::last_write_time(folder / name, error); !error) last = std::max(last, time);
  }
  return last;
}

/// The newest first.
void sort_by_time(std::vector<fs::path>& folders) {
  std::vector<std::pair<fs::file_time_type, fs::path>> runs;
  runs.reserve(folders.size());
  for (auto& folder : folders) runs.emplace_back(last_write(folder), std::move(folder));
  std::ranges::stable_sort(runs, std::greater<>(), [](const auto& run) { return run.first; });
  std::ranges::transform(runs, folders.begin(), [](auto& run) { return std::move(run.second); });
}

/// With one question to Slurm for all that may be alive.
std::vector<RunReport> reports_of(std::span<const fs::path> folders) {
  std::vector<observe::RunSummary> summaries;
  std::vector<std::string> jobs;
  for (const auto& folder : folders) {
    auto& summary = summaries.emplace_back(observe::summarize_run(folder));
    if (!summary.evaluation) summary.evaluation = observe::find_evaluation(folder);
    if (summary.phase == observe::Phase::finished || summary.phase == observe::Phase::ended) continue;
    const auto more = jobs_of_interest(summary);
    jobs.insert(jobs.end(), more.begin(), more.end());
  }
  const auto states = ask_job_states(jobs);
  std::vector<RunReport> reports;
  for (std::size_t i = 0; i < folders.size(); ++i)
    reports.push_back(make_report(folders[i], std::move(summaries[i]), states));
  return reports;
}

struct Listed {
  std::vector<RunReport> reports;  ///< the newest first
  std::size_t left = 0;            ///< older runs that were not looked at
};

/// Reads no more runs than it needs.
Listed list_newest(const LsArguments& arguments) {
  auto folders = folders_of(arguments);
  sort_by_time(folders);
  Listed listed;
  std::size_t next = 0;
  while (next < folders.size() && listed.reports.size() < arguments.limit()) {
    std::vector<fs::path> some;
    const auto wanted = arguments.limit() - listed.reports.size();
    for (; next < folders.size() && some.size() < wanted; ++next)
      if (is_readable(folders[next])) some.push_back(folders[next]);
    for (auto& report : reports_of(some))
      if (arguments.states.empty() || std::ranges::find(arguments.states, report.state.word) != arguments.states.end())
        listed.reports.push_back(std::move(report));
  }
  listed.left = folders.size() - next;
  std::ranges::stable_sort(listed.reports, std::greater<>(), [](const auto& run) { return run.summary.last_time; });
  return listed;
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

/// True if it is named as a run of a sweep is: other runs may lie beside a sweep file.
bool is_named_by_sweep(const fs::path& run_folder) {
  const auto name = run_folder.filename().string();
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() && name == name_of_run(number);
}

/// The sweeps that these runs are part of, each once, as far as they can be read.
std::string sweeps_of(const std::vector<RunReport>& reports) {
  std::set<fs::path> folders;
  for (const auto& report : reports) {
    std::error_code error;
    const auto folder = report.folder.parent_path();
    if (is_named_by_sweep(report.folder) && fs::is_regular_file(folder / kSweepFile, error)) folders.insert(folder);
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

/// "0.2189", "0.2189 96.6%".
std::string validation_text(const std::optional<observe::EvaluationSummary>& evaluation) {
  if (!evaluation) return "-";
  const auto loss = fmt::format("{:.4g}", evaluation->loss);
  return evaluation->accuracy ? fmt::format("{} {:.1f}%", loss, 100 * *evaluation->accuracy) : loss;
}

std::string age_text(double time, double now) {
  return time > 0 ? duration_text(now - time) + " ago" : "-";
}

std::vector<std::string> row_of(const RunReport& report, double now, const fs::path& here) {
  const auto& summary = report.summary;
  const auto total = summary.total ? fmt::format("/{}", *summary.total) : std::string();
  const auto& job = report.job ? report.job->job : summary.job;
  return {report.id.empty() ? "-" : report.id,
          report.state.word,
          job.empty() ? "-" : job,
          summary.step ? fmt::format("{}{}", *summary.step, total) : "-",
          fmt::format("{}", summary.restarts.size()),
          validation_text(summary.evaluation),
          age_text(summary.last_time, now),
          (lies_in(report.folder, here) ? report.folder.lexically_relative(here) : report.folder).string()};
}

void print_runs(const Listed& listed) {
  if (listed.reports.empty())
    return fmt::print("no such runs are known here; a run is noted when it is submitted or started\n");
  TextTable table;
  table.left(1).left(7);
  table.add({"RUN", "STATE", "JOB", "STEP", "RESTARTS", "VALIDATION", "LAST SIGN", "FOLDER"});
  const auto here = normal(fs::current_path());
  for (const auto& report : listed.reports) table.add(row_of(report, seconds_since_1970(), here));
  auto text = table.text();
  const Success success(listed.reports);
  if (success.ended > 0)
    text += fmt::format("{} of {} runs that have ended finished ({:.0f}%)\n", success.finished, success.ended,
                        100.0 * success.finished / success.ended);
  if (listed.left > 0)
    text += fmt::format("{} older run{} not shown; \"distdl ls -n 0\" lists all\n", listed.left,
                        listed.left == 1 ? " is" : "s are");
  print_paged(text + sweeps_of(listed.reports));
}

void list_runs(const LsArguments& arguments) {
  const auto listed = list_newest(arguments);
  if (!arguments.json) return print_runs(listed);
  auto rows = nlohmann::ordered_json::array();
  for (const auto& report : listed.reports) rows.push_back(to_json(report));
  const Success success(listed.reports);
  const nlohmann::ordered_json all{
      {"runs", std::move(rows)}, {"ended", success.ended}, {"finished", success.finished}, {"left", listed.left}};
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}
}  // namespace

void add_ls_command(Command app) {
  auto command = app.add_subcommand("ls", "List your newest runs, with their states and results");
  auto arguments = std::make_shared<LsArguments>();
  command.add_option("RUN", arguments->folders,
                     "Only these, also runs that are not in your index; see \"distdl status\"");
  command
      .add_option("-n", arguments->most,
                  fmt::format("Only so many, the newest; 0: all; default: {} unless runs are named", kShownRuns))
      .type_name("RUNS")
      .not_negative();
  command.add_flag("--here", arguments->here, "Only runs in the current folder and those below it");
  command.add_option("--state", arguments->states, "Only runs in these states, as in: --state training,queued")
      .type_name("STATES")
      .list();
  command.add_flag("--prune", arguments->prune, "Forget runs whose folders are gone");
  command.add_flag("--json", arguments->json, "Print JSON");
  command.examples({{"distdl ls", "List your newest runs"},
                    {"distdl ls --here -n 0", "List all runs in the current folder"},
                    {"distdl ls --state training,queued", "List the runs that are alive"},
                    {"distdl ls run small", "List only these"},
                    {"distdl ls --prune", "Forget runs whose folders are gone"}});
  command.callback([arguments] { list_runs(*arguments); });
}

}  // namespace distdl::app
