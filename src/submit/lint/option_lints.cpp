// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/slurm/warning_signal.hpp>
#include <distdl/submit/lint/findings.hpp>

// Lints of what a job asks Slurm for.
namespace distdl::submit {
namespace {
/// The line of the first of these options; 0 if there is none.
int line_of(const SbatchOptions& options, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const SbatchOption* option = options.find(name)) return option->line;
  return 0;
}

/// The number at the end of "4", "a100:4", "gpu:a100:4"; 1 of "gpu". Nothing for lists and for what is no number.
std::optional<long> last_number(const std::string& text) {
  if (text.empty() || text.find(',') != std::string::npos) return std::nullopt;
  SbatchOptions parts;
  parts.set("number", text.substr(text.rfind(':') + 1));
  return parts.number("number");
}

std::optional<long> gpus_of_node(const SbatchOptions& options, std::optional<long> nodes) {
  if (const auto count = last_number(options.value("gpus-per-node"))) return count;
  const std::string resources = options.value("gres");
  if (resources.starts_with("gpu:")) return last_number(resources);
  const auto all = last_number(options.value("gpus"));
  if (all && nodes && *nodes > 0 && *all % *nodes == 0) return *all / *nodes;
  return std::nullopt;
}

std::optional<long> tasks_of_node(const SbatchOptions& options, std::optional<long> nodes) {
  if (const auto count = options.number("ntasks-per-node")) return count;
  const auto all = options.number("ntasks");
  if (all) return nodes && *nodes > 0 && *all % *nodes == 0 ? std::optional(*all / *nodes) : std::nullopt;
  return options.has("ntasks-per-gpu") || options.has("gpus-per-task") ? std::nullopt : std::optional(1L);
}

void lint_gpus(const BatchScript& script, Findings& findings) {
  const SbatchOptions& options = script.options;
  const auto nodes = options.has("nodes") ? options.number("nodes") : std::optional(1L);
  const auto gpus = gpus_of_node(options, nodes), tasks = tasks_of_node(options, nodes);
  if (gpus && tasks && *gpus != *tasks && *gpus > 0)
    findings.add("tasks-not-gpus", line_of(options, {"ntasks-per-node", "ntasks", "gpus-per-node", "gres", "gpus"}),
                 "{} {} on each node, but {} {}; one rank per GPU is expected: --ntasks-per-node={}", *tasks,
                 *tasks == 1 ? "rank" : "ranks", *gpus, *gpus == 1 ? "GPU" : "GPUs", *gpus);
  if (options.has("gpus-per-task") && options.value("gpu-bind") != "none")
    findings.add(
        "gpus-hide-peers", line_of(options, {"gpus-per-task"}),
        "--gpus-per-task shows each rank its own GPU alone, so ranks of a node cannot copy between their GPUs; "
        "use --gpus-per-node, or add --gpu-bind=none");
}

/// Runs in the foreground, and is not what the script has become.
bool blocks_script(const ShellCommand& command) {
  return !command.in_background && !command.is_exec && starts_step(command);
}

void lint_delivery(const BatchScript& script, Findings& findings) {
  for (const ShellCommand& command : script.commands)
    if (blocks_script(command))
      return findings.add(
          "signal-in-foreground", command.line,
          "--signal=B: sends the signal to the script alone, whose shell handles it only after \"{}\" has "
          "ended; start it in the background with \"&\", and wait for it: wait $!; or begin the line "
          "with exec",
          command.program());
}
}  // namespace

void lint_options(const BatchScript& script, const LintFacts& facts, Findings& findings) {
  const SbatchOptions& options = script.options;
  const bool may_requeue = !options.has("no-requeue");
  if (may_requeue && options.value("open-mode") != "append")
    findings.add("log-truncated", line_of(options, {"open-mode", "output", "requeue"}),
                 "when Slurm starts the job again it empties the log of the start before; add --open-mode=append");
  if (!may_requeue && facts.run_requeues && runs_distdl(script))
    findings.add("requeue-refused", line_of(options, {"no-requeue"}),
                 "--no-requeue, but the run asks Slurm to requeue the job when it must stop; take the option out, or "
                 "submit a chain: distdl submit --chain N");
  if (may_requeue && facts.run_requeues && facts.lacks_scontrol && runs_distdl(script))
    findings.add(
        "no-scontrol", 0,
        "there is no scontrol on PATH here: if the nodes lack it too, the job cannot be requeued, and ends with "
        "code 71 when it must stop; submit a chain: distdl submit --chain N");
  if (script.component_line > 0 && runs_distdl(script))
    findings.add("heterogeneous", script.component_line,
                 "a heterogeneous job has several components, and distdl would use the nodes of one alone; submit one "
                 "job, or nodes that join the run: distdl submit --join RUN");
  lint_gpus(script, findings);
}

void lint_signal(const BatchScript& script, const LintFacts& facts, Findings& findings) {
  const SbatchOption* signal = script.options.find("signal");
  const auto warning = slurm::warning_from(signal ? signal->value.value_or("") : "");
  const bool is_ours = runs_distdl(script);
  if (!signal || !warning) {
    if (script.commands.empty()) return;
    findings.add("signal-missing", signal ? signal->line : 0,
                 "nothing warns the program before the time limit; add --signal=B:USR1@120");
    if (is_ours) findings.set_level(LintLevel::note);  // it knows the limit by itself
    return;
  }
  if (warning->to_batch_shell) {
    lint_delivery(script, findings);
  } else {
    findings.add("signal-kills-ranks", signal->line,
                 "without \"B:\" Slurm sends the signal to every process of every step, and it ends those that do not "
                 "expect it; write --signal=B:{}, and let the script hand it on",
                 signal->value.value_or("USR1@120"));
    if (!is_ours) findings.set_level(LintLevel::note);
  }
  const auto limit = seconds_of_time(script.options.value("time"));
  if (limit && *limit > 0 && warning->before.count() >= *limit) {
    findings.add("signal-at-start", signal->line,
                 "the signal comes {} s before the end of the job, which may run {} s: each start would save and stop "
                 "after a step or two; give more --time, or --signal=B:USR1@{}",
                 warning->before.count(), *limit, std::max(1L, *limit / 2));
    if (!is_ours) findings.set_level(LintLevel::warning);
    return;
  }
  if (!facts.save_seconds) return;
  const double needed = std::ceil(*facts.save_seconds * 1.5 + 15);
  if (static_cast<double>(warning->before.count()) < needed)
    findings.add("signal-too-late", signal->line,
                 "the signal comes {} s before the end of the job, but a save takes {} {:.0f} s; with some margin "
                 "{:.0f} s are needed: --signal=B:USR1@{:.0f}",
                 warning->before.count(), facts.save_is_measured ? "measured" : "an expected", *facts.save_seconds,
                 needed, needed);
}

}  // namespace distdl::submit
