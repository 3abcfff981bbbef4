// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/runs/submission.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/submit/script_file.hpp>

namespace distdl::app {
namespace {
using SubmitJson = nlohmann::ordered_json;

struct SubmitArguments {
  SubmissionWish wish;
  std::filesystem::path lint;
  std::string join;  ///< the run; empty: none
  bool dry_run = false, force = false, json = false;
};

SubmitJson findings_json(const std::vector<submit::LintFinding>& findings) {
  auto rows = SubmitJson::array();
  for (const auto& finding : findings)
    rows.push_back({{"rule", finding.rule},
                    {"level", submit::name_of(finding.level)},
                    {"line", finding.line},
                    {"message", finding.message}});
  return rows;
}

bool has_errors(const std::vector<submit::LintFinding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const auto& finding) { return finding.level == submit::LintLevel::error; });
}

std::string json_text(const SubmitJson& row) {
  return row.dump(2, ' ', false, SubmitJson::error_handler_t::replace) + "\n";
}

void lint_file(const SubmitArguments& arguments) {
  const auto script = submit::parse_batch_script(submit::read_script(arguments.lint), arguments.lint.string());
  const auto findings = submit::lint(script, gather_facts(script));
  if (arguments.json) {
    fmt::print("{}", json_text(findings_json(findings)));
  } else {
    for (const auto& finding : findings) fmt::print("{}\n", submit::to_text(finding, script.name));
    if (findings.empty()) fmt::print("{}: ok\n", printable(script.name));
  }
  if (has_errors(findings)) throw Ended(static_cast<int>(ExitCode::config));
}

/// Warnings and errors go to stderr.
void tell_findings(const PlannedSubmission& plan, const std::string& script, bool force) {
  for (const auto& finding : plan.findings)
    if (finding.level != submit::LintLevel::note) write_console(STDERR_FILENO, submit::to_text(finding, script) + "\n");
  require(force || !has_errors(plan.findings), "the job is not submitted: its script has errors; --force submits it");
}

/// Prints the script of a dry run.
void print_script(const PlannedSubmission& plan, bool json) {
  fmt::print("{}",
             json ? json_text({{"script", plan.script}, {"findings", findings_json(plan.findings)}}) : plan.script);
}

/// One run folder is for one job at a time.
void require_idle(const std::filesystem::path& folder) {
  auto summary = observe::summarize_run(folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  const RunReport report = make_report(folder, std::move(summary), std::move(jobs));
  if (report.state.is_live)
    throw StorageError(
        fmt::format(
            "the run \"{}\" is {} already{}; wait for it, or \"distdl cancel {}\" it, or choose another run.dir; "
            "--force submits the job in spite of that",
            folder.string(), report.state.word, report.job ? fmt::format(" (job {})", report.job->job) : "",
            folder.string()),
        ExitCode::superseded);
}

/// The ids of the jobs. Where Slurm takes some of a chain only, the chain is shorter.
std::vector<std::string> submit_links(const PlannedSubmission& plan, int links) {
  observe::Journal journal(plan.run_folder);
  const slurm::Submission submission{plan.script, std::filesystem::current_path()};
  std::vector<std::string> jobs;
  try {
    for (int link = 1; link <= links; ++link) {
      jobs.push_back(slurm::scheduler().submit(submission));
      if (!plan.avoided.empty()) observe::note_exclusion(plan.run_folder, jobs.back(), plan.avoided);
      journal.append(records::Submitted{jobs.back(), plan.chain, link, links});
    }
  } catch (const SchedulerError& error) {
    if (jobs.empty()) throw;
    log(Severity::warning, "{}; the chain has {} jobs instead of {}", error.what(), jobs.size(), links);
  }
  return jobs;
}

void tell_jobs(const SubmitArguments& arguments, const PlannedSubmission& plan, const std::vector<std::string>& jobs) {
  if (arguments.json)
    return print_accepted(json_text({{"run", plan.run_id},
                                     {"run_dir", plan.run_folder.string()},
                                     {"job", jobs.front()},
                                     {"jobs", jobs},
                                     {"script", (plan.run_folder / submit::kScriptName).string()},
                                     {"findings", findings_json(plan.findings)}}),
                          jobs);
  const std::string folder = printable(plan.run_folder.string());
  print_accepted(
      fmt::format("submitted job{} {}: {}\nrun {} in {}; see \"distdl status {}\", \"distdl log -f {}\"\n",
                  jobs.size() == 1 ? "" : "s", fmt::join(jobs, ", "), plan.what, plan.run_id, folder, folder, folder),
      jobs);
}

void submit_job(const SubmitArguments& arguments) {
  PlannedSubmission plan = plan_submission(arguments.wish);
  if (arguments.dry_run) {
    print_script(plan, arguments.json);
    return tell_findings(plan, submit::kScriptName, arguments.force);
  }
  tell_findings(plan, submit::kScriptName, arguments.force);
  if (!arguments.force) require_idle(plan.run_folder);
  make_run_folder(plan.run_folder);
  const auto identity = observe::identify_run(plan.run_folder, plan.run_id);
  plan.run_id = identity.id;
  observe::remember_run(identity, plan.run_folder);
  observe::drop_requests(plan.run_folder);
  replace_text(real_file_system(), resolved(plan.run_folder) / submit::kScriptName, plan.script);
  tell_jobs(arguments, plan, submit_links(plan, arguments.wish.links));
}

/// The run's own job stays the one that its journal knows.
void submit_join(const SubmitArguments& arguments, const std::vector<std::string>& words) {
  const auto folder = std::filesystem::absolute(find_run(arguments.join));
  const auto options = submit::parse_sbatch_words(words);
  std::string made_by = "distdl submit --join " + submit::quote(arguments.join);
  for (const auto& option : options) made_by += " " + submit::to_word(option);
  const auto plan = plan_join(folder, options, made_by);
  if (arguments.dry_run) print_script(plan, arguments.json);
  tell_findings(plan, submit::kJoinScriptName, arguments.force);
  if (arguments.dry_run) return;
  const auto script = folder / submit::kJoinScriptName;
  replace_text(real_file_system(), resolved_place(script), plan.script);
  const auto job = slurm::scheduler().submit({plan.script, std::filesystem::current_path()});
  print_accepted(arguments.json ? json_text({{"run_dir", folder.string()},
                                             {"job", job},
                                             {"script", script.string()},
                                             {"findings", findings_json(plan.findings)}})
                                : fmt::format("submitted job {}, whose nodes join the run in {}\n", job,
                                              printable(folder.string())),
                 {job});
}

std::string command_of(const SubmitArguments& arguments) {
  std::string text = "distdl submit";
  for (const auto& word : arguments.wish.job.command_line()) text += " " + submit::quote(word);
  for (const auto& option : arguments.wish.options) text += " " + submit::to_word(option);
  return arguments.wish.links > 1 ? fmt::format("{} --chain {}", text, arguments.wish.links) : text;
}

/// A file that stands where "--nodes 8" would have its value is the job file.
void read_words(SubmitArguments& arguments, const std::vector<std::string>& unknown) {
  auto& wish = arguments.wish;
  require<UsageError>(wish.job.file.empty() || std::filesystem::exists(wish.job.file),
                      "there is no job file \"{}\"; write options of sbatch behind it, or as --nodes=8 or -N8",
                      wish.job.file.string());
  wish.options = submit::parse_sbatch_words(unknown);
  wish.made_by = command_of(arguments);
}
}  // namespace

void add_submit_command(Command app) {
  auto command = app.add_subcommand(
      "submit", "Check a job, write its batch script, lint it, and submit it; options of sbatch are passed on");
  auto arguments = std::make_shared<SubmitArguments>();
  auto job = command.add_option("job", arguments->wish.job.file,
                                "Job file in TOML; its table [slurm] may name nodes, time ...");
  command.add_option("--set", arguments->wish.job.overrides, "Override a key of the job file: --set slurm.nodes=8")
      .repeatable("KEY=VALUE");
  command.add_flag("--dry-run", arguments->dry_run, "Print the script, and submit nothing");
  command
      .add_option("--chain", arguments->wish.links,
                  "Submit so many jobs, one after the other, for a site that requeues none: each goes on where the one "
                  "before ended, and the first one that finishes the run cancels the rest")
      .type_name("N")
      .within(1, 1000);
  auto lint =
      command
          .add_option("--lint", arguments->lint,
                      "Only look for mistakes in this batch script of your own; ends with 78 if there are errors")
          .type_name("SCRIPT");
  auto join = command
                  .add_option("--join", arguments->join,
                              "Submit a job whose nodes join this run, which has fewer nodes than it can use")
                  .type_name("RUN");
  command.add_flag("--force", arguments->force, "Submit also what lints call an error, or while the run has a job");
  command.add_flag("--json", arguments->json, "Print JSON");
  command.allow_unknown();
  command.program_after_dashes(arguments->wish.job.program);
  command.examples({{"distdl submit job.toml --nodes=8 --time=12:00:00 --set train.epochs=2",
                     "Submit a job, with options of sbatch and changed keys"},
                    {"distdl submit job.toml --chain 5 -p gpu --dry-run",
                     "Print the script of a chain of 5 jobs, and submit nothing"},
                    {"distdl submit --join run --nodes=1 --time=02:00:00",
                     "Let one more node join a run that has fewer than it can use"},
                    {"distdl submit --nodes=2 --ntasks-per-node=4 --time=02:00:00 -- python3 train.py",
                     "Submit a program of your own, of which each task is a rank"},
                    {"distdl submit --lint my.sbatch", "Look for mistakes in a script of your own"}});
  command.callback([arguments, command, job, lint, join] {
    if (join.given()) {
      const bool is_alone = !job.given() && !lint.given();
      require<UsageError>(is_alone && arguments->wish.links == 1 && arguments->wish.job.overrides.empty(), "{}",
                          "--join takes no job file, --set, --chain or --lint; write the value of an option "
                          "of sbatch without a space: --nodes=1, -N1, --partition=gpu");
      return submit_join(*arguments, command.unknown());
    }
    if (lint.given()) {
      require<UsageError>(!job.given() && command.unknown().empty(), "{}", "--lint takes the script alone");
      return lint_file(*arguments);
    }
    require<UsageError>(
        job.given() || !arguments->wish.job.program.empty(), "{}",
        "\"distdl submit\" needs a job file, as in: distdl submit job.toml --nodes=8; or a program, as in: distdl "
        "submit --nodes=8 -- python3 train.py; \"distdl submit --help\" explains it");
    read_words(*arguments, command.unknown());
    submit_job(*arguments);
  });
}

}  // namespace distdl::app
