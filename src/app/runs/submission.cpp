// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>

#include <fmt/ranges.h>

#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/app/plan/run_forecast.hpp>
#include <distdl/app/runs/avoided_nodes.hpp>
#include <distdl/app/runs/join_target.hpp>
#include <distdl/app/runs/submission.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/program_path.hpp>
#include <distdl/base/random.hpp>
#include <distdl/forecast/nearest_fit.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/parallel/tensor_placement.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/environment.hpp>
#include <distdl/slurm/mpi_types.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::app {
namespace {
constexpr double kExpectedBytesPerSecond = 5e8;  ///< rate at which one job writes to a shared file system
constexpr std::size_t kIdOfChain = 6;            ///< random bytes

/// Longest save that the journal of a run has; `any`: the run has made one.
struct MeasuredSaves {
  double seconds = 0;
  bool any = false;
};

MeasuredSaves measured_saves(const std::filesystem::path& run_folder) {
  MeasuredSaves saves;
  for (const auto& row : observe::read_journal(run_folder))
    if (const auto* const saved = row.as<records::CheckpointSaved>(); saved && saved->seconds > 0)
      saves = {std::max(saves.seconds, saved->seconds), true};
  return saves;
}

/// Largest number of nodes in --nodes: 3 for "2-3"; 0 if it is not known.
int most_nodes_of(const submit::SbatchOptions& options) {
  int count = 0;
  const std::string nodes = options.value("nodes");
  const auto last = nodes.find_last_of(",-") + 1;  // 0 if there is none
  std::from_chars(nodes.data() + last, nodes.data() + nodes.size(), count);
  return count;
}

/// Tasks of the job, as far as its options tell; else 1.
int tasks_of(const submit::SbatchOptions& options) {
  const long nodes = most_nodes_of(options), each = options.number("ntasks-per-node").value_or(1);
  constexpr long kMost = 1 << 20;
  return static_cast<int>(std::clamp(options.number("ntasks").value_or(nodes * each), 1L, kMost));
}

void refuse_options(const submit::SbatchOptions& options) {
  for (const char* name : {"array", "wrap", "wait", "test-only", "input", "export-file"})
    require<UsageError>(!options.has(name),
                        "\"distdl submit\" takes no option --{} of sbatch; see --dry-run and sbatch", name);
}

/// Makes the job a link of a chain. Each link has the same name, which no other job of the user has: Slurm runs one of
/// them at a time.
void make_chain(submit::ScriptRequest& request, const PlannedSubmission& plan) {
  auto& options = request.options;
  options.set("job-name", fmt::format("{}-{}", options.value("job-name"), plan.run_id));
  const std::string other = options.value("dependency");
  options.set("dependency", other.empty() ? "singleton" : other + ",singleton");
  options.set(submit::SbatchOption{"no-requeue"});
  request.arguments.insert(request.arguments.end(), {"--set", "run.requeue=false"});
  request.chain = plan.chain;
}

/// Smallest number of nodes in --nodes: 2 for "2-3"; 1 if it is not known.
std::size_t fewest_nodes_of(const submit::SbatchOptions& options) {
  std::size_t count = 1;
  const std::string nodes = options.value("nodes");
  std::from_chars(nodes.data(), nodes.data() + nodes.size(), count);
  return std::max<std::size_t>(1, count);
}

/// Excludes nodes that earlier jobs of the run have left out, and returns them. A user who names nodes means them.
std::vector<std::string> avoid_bad_nodes(submit::SbatchOptions& options, const config::Job& job) try {
  const std::string excluded = options.value("exclude");
  if (options.has("nodelist") || excluded.find('/') != std::string::npos) return {};
  auto avoided = nodes_to_avoid(job.run_dir, job.launch.bad_node_hours, options.value("partition"), excluded,
                                fewest_nodes_of(options));
  if (avoided.empty()) return {};
  const auto list = fmt::format("{}", fmt::join(avoided, ","));
  log(Severity::info, "an earlier job of the run has left out {}: this one does not get it", list);
  options.set("exclude", excluded.empty() ? list : excluded + "," + list);
  return avoided;
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}; bad nodes are not excluded", error.what());
  return {};
}

/// Early enough for a save, where nobody says when.
void choose_signal(submit::SbatchOptions& options, const submit::LintFacts& facts) {
  constexpr double kLeastWarning = 60;
  const double needed = facts.save_seconds ? std::ceil(*facts.save_seconds * 1.5 + 15) : 0;
  double warning = std::max(kLeastWarning, needed);
  // Not as long as the job may run: each start would save and stop at once.
  const auto limit = submit::seconds_of_time(options.value("time"));
  if (limit && *limit > 1 && needed < static_cast<double>(*limit))
    warning = std::max(needed, std::min(warning, static_cast<double>(*limit) / 2));
  options.set("signal", fmt::format("B:USR1@{:.0f}", std::floor(warning)));
}

submit::SbatchOptions options_of(const SubmissionWish& wish, const config::Job& job, const submit::LintFacts& facts) {
  auto options = submit::merge_options(job.submit, wish.options);
  refuse_options(options);
  const auto is_given = [&](const char* name) {
    return std::any_of(wish.options.begin(), wish.options.end(),
                       [&](const auto& option) { return option.name == name; }) ||
           job.submit.options.find(fmt::format("--{}", name)) != std::string::npos;
  };
  if (!is_given("signal") && job.submit.signal.empty()) choose_signal(options, facts);
  if (!is_given("output"))
    options.set("output", submit::escape_pattern((std::filesystem::path(job.run_dir) / "slurm-").string()) + "%j.log");
  options.set("chdir", std::filesystem::current_path().string());
  for (const auto& [name, value] : slurm::wished_by_site([&](const auto& each) { return options.has(each.option); }))
    options.set(name, value);
  return options;
}

bool wants_gpus(const submit::SbatchOptions& options) {
  return options.has("gpus") || options.has("gpus-per-node") || options.has("gpus-per-task") ||
         options.value("gres").find("gpu") != std::string::npos;
}

/// Bytes of a node that the job may use; nothing if that is not known.
std::optional<std::uint64_t> memory_of_node(const submit::SbatchOptions& options, int ranks_per_node) {
  if (const auto own = submit::bytes_of_memory(options.value("mem"))) return own;
  const auto each = submit::bytes_of_memory(options.value("mem-per-cpu"));
  if (each && !options.has("exclusive"))
    return *each * static_cast<std::uint64_t>(ranks_per_node * options.number("cpus-per-task").value_or(1));
  return slurm::most_node_memory(options.value("partition"));
}

/// Why a node's memory does not suffice for its ranks; empty if it does, or that is not known.
std::string memory_problem(const config::Job& job, const submit::SbatchOptions& options) try {
  if (wants_gpus(options)) return "";
  const int nodes = most_nodes_of(options), ranks = count_ranks(job, tasks_of(options), nodes).at_start;
  forecast::Machine machine;
  machine.nodes = std::max(1, nodes > 0 ? nodes - static_cast<int>(job.agent.spares) : ranks);
  machine.ranks_per_node = std::max(1, (ranks + machine.nodes - 1) / machine.nodes);
  const auto memory = memory_of_node(options, machine.ranks_per_node);
  if (!memory) return "";
  machine.memory_bytes = *memory;
  if (machine.nodes * machine.ranks_per_node != ranks) {  // as nodes of one rank each, which the ranks assume, too
    machine.memory_bytes /= static_cast<std::uint64_t>(machine.ranks_per_node);
    machine.nodes = std::max(1, ranks);
    machine.ranks_per_node = 1;
  }
  add_figures(machine, job);
  forecast::require_memory(job.recipe, forecast::workload_of(job.recipe), machine);
  return "";
} catch (const forecast::MemoryTooSmall& error) {
  return error.what();
}

/// Which tensor group lies on several nodes; empty if none does, or the ranks of each node are not known.
std::string tensor_problem(const config::Job& job, const submit::SbatchOptions& options) try {
  const int nodes = most_nodes_of(options), ranks = count_ranks(job, tasks_of(options), nodes).at_start;
  const int own = nodes - (job.agent.recovery == agent::Recovery::agents ? static_cast<int>(job.agent.spares) : 0);
  const auto& parallel = job.recipe.parallel;
  if (parallel.tensor_ranks == 1 || own < 1 || ranks % own != 0) return "";
  return parallel::divided_tensor_group(parallel::degrees_of(parallel, ranks, kAnyStages), ranks / own);
} catch (const ConfigError&) {  // which other checks explain
  return "";
}

std::string program_file() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}
}  // namespace

void print_accepted(const std::string& text, const std::vector<std::string>& jobs) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  require<StorageError>(written, "Slurm has accepted job {}, but that cannot be written to stdout: {}",
                        fmt::join(jobs, ", "), errno_text(errno));
}

submit::LintFacts gather_facts(const config::Job& job, std::uint64_t state_bytes, bool asks_slurm) {
  submit::LintFacts facts;
  const auto saves = measured_saves(job.run_dir);
  facts.save_is_measured = saves.any;
  if (saves.any)
    facts.save_seconds = saves.seconds;
  else if (state_bytes > 0)
    facts.save_seconds = 1 + static_cast<double>(state_bytes) / kExpectedBytesPerSecond;
  facts.folder = submit::look_at_run_folder(job.run_dir);
  if (state_bytes > 0) facts.folder->checkpoint_bytes = state_bytes;
  facts.run_requeues = job.launch.requeue;
  if (asks_slurm) facts.mpi_types = slurm::mpi_types();
  facts.lacks_scontrol = !slurm::has_scontrol() && is_on_path("srun");
  return facts;
}

submit::LintFacts gather_facts(const submit::BatchScript& script) {
  submit::LintFacts facts;
  for (const auto& command : script.commands) {
    constexpr std::size_t kFile = 2;  // distdl run FILE
    if (command.words.size() <= kFile || command.words[1] != "run") continue;
    JobArguments arguments{command.words[kFile], {}};
    for (std::size_t i = kFile + 1; i + 1 < command.words.size(); ++i)
      if (command.words[i] == "--set") arguments.overrides.push_back(command.words[i + 1]);
    try {
      facts = gather_facts(arguments.load(), 0, false);
    } catch (const ConfigError& error) {
      log(Severity::debug, "the job file is not looked at: {}", error.what());
    }
  }
  facts.mpi_types = slurm::mpi_types();
  facts.lacks_scontrol = !slurm::has_scontrol() && is_on_path("srun");
  return facts;
}

PlannedSubmission plan_join(const std::filesystem::path& run_folder, const std::vector<submit::SbatchOption>& options,
                            const std::string& made_by) {
  require_running(run_folder);
  const auto target = find_join_target(run_folder, Milliseconds(0));
  require_free_place(run_folder, target);
  SubmissionWish wish;
  wish.options = options;
  auto facts = gather_facts(target.job, 0, false);
  facts.folder.reset();  // the run has it already
  submit::ScriptRequest request{options_of(wish, target.job, facts)};
  const bool names_nodes = std::ranges::any_of(options, [](const auto& option) { return option.name == "nodes"; });
  if (!names_nodes) request.options.set("nodes", std::to_string(target.free_places()));
  request.options.set(submit::SbatchOption{"no-requeue"});
  avoid_bad_nodes(request.options, target.job);
  request.joins = run_folder.string();
  request.program = program_file();
  request.setup = target.job.submit.setup;
  request.made_by = made_by;
  PlannedSubmission plan{run_folder};
  plan.script = submit::write_script(request);
  plan.findings = submit::lint(submit::parse_batch_script(plan.script, "join.sbatch"), facts);
  return plan;
}

PlannedSubmission plan_submission(const SubmissionWish& wish) {
  for (const auto& option : wish.options)
    if (option.name == "chdir" && option.value) std::filesystem::current_path(*option.value);
  const config::Job job = wish.job.load();
  config::log_warnings(job);
  check_run_folder(job.run_dir);
  const auto wanted = submit::merge_options(job.submit, wish.options);
  const JobFacts about = examine_job(job, kAnyMemory, count_ranks(job, tasks_of(wanted), most_nodes_of(wanted)));
  auto facts = gather_facts(job, about.state_bytes, true);
  submit::ScriptRequest request{options_of(wish, job, facts)};
  PlannedSubmission plan{job.run_dir};
  plan.avoided = avoid_bad_nodes(request.options, job);
  if (!job.program.is_given()) {
    facts.memory_problem = memory_problem(job, request.options);
    facts.tensor_problem = tensor_problem(job, request.options);
  }
  const auto identity = observe::find_identity(job.run_dir);
  plan.run_id = identity ? identity->id : random_hex(kIdOfChain);
  plan.what = about.text;
  request.arguments = wish.job.command_line();
  request.program = program_file();
  request.setup = job.submit.setup;
  request.made_by = wish.made_by;
  request.run = std::filesystem::absolute(job.run_dir).lexically_normal().string();
  if (wish.links > 1) {
    plan.chain = random_hex(kIdOfChain);
    make_chain(request, plan);
    facts.run_requeues = false;
  }
  plan.script = submit::write_script(request);
  plan.findings = submit::lint(submit::parse_batch_script(plan.script, "job.sbatch"), facts);
  return plan;
}

}  // namespace distdl::app
