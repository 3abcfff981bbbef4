// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/ranges.h>

#include <distdl/submit/lint/findings.hpp>

// Lints of the commands that start ranks.
namespace distdl::submit {
namespace {
bool is_named_distdl(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  return name == "distdl" || name == "$distdl" || name == "${distdl}" || name == "$DISTDL" || name == "${DISTDL}";
}

/// Whether it is "distdl VERB".
bool is_distdl(const ShellCommand& command, std::string_view verb) {
  return command.words.size() > 1 && is_named_distdl(command.words[0]) && command.words[1] == verb;
}

/// Whether "distdl VERB" is among the words.
bool has_distdl(const ShellCommand& command, std::string_view verb) {
  for (std::size_t i = 0; i + 1 < command.words.size(); ++i)
    if (is_named_distdl(command.words[i]) && command.words[i + 1] == verb) return true;
  return false;
}

bool is_srun(const ShellCommand& command) {
  return command.program() == "srun";
}

bool exports_cpus(const BatchScript& script) {
  return std::any_of(script.commands.begin(), script.commands.end(), [](const ShellCommand& command) {
    return command.text.find("SRUN_CPUS_PER_TASK=") != std::string::npos;
  });
}

/// `cpus`: of each task of the job; 0: not asked for, or handed on to all steps.
void lint_cpus(long cpus, const ShellCommand& step, Findings& findings) {
  if (cpus > 1 && srun_value(step, "cpus-per-task", 'c').empty())
    findings.add("cpus-not-inherited", step.line,
                 "srun gives each task one core, not the {} of sbatch's --cpus-per-task (since Slurm 22.05); add "
                 "--cpus-per-task=$SLURM_CPUS_PER_TASK to srun",
                 cpus);
}

void lint_nodes(const BatchScript& script, const ShellCommand& step, Findings& findings) {
  const std::string wanted = srun_value(step, "nodes", 'N');
  SbatchOptions parts;
  parts.set("nodes", wanted);
  const auto here = parts.number("nodes"), all = script.options.number("nodes");
  if (here && all && *here != *all)
    findings.add("nodes-differ", step.line,
                 "srun asks for {} nodes, sbatch for {}; leave --nodes out of srun, which then takes all", *here, *all);
}

void lint_mpi(const ShellCommand& step, const LintFacts& facts, Findings& findings) {
  const std::string type = srun_value(step, "mpi", 0);
  const bool is_known = facts.mpi_types.empty() || type.empty() || type.front() == '$' ||
                        std::find(facts.mpi_types.begin(), facts.mpi_types.end(), type) != facts.mpi_types.end();
  if (!is_known)
    findings.add("mpi-unavailable", step.line, "srun here has no --mpi={}; it has {}", type,
                 fmt::join(facts.mpi_types, ", "));
  else if (has_distdl(step, "worker") && !type.starts_with("pmix"))
    findings.add("mpi-wrong", step.line, "{}; ranks of distdl are introduced by PMIx: srun --mpi=pmix",
                 type.empty() ? "srun without --mpi takes the site's default" : "--mpi=" + type);
}
}  // namespace

bool is_distdl_run(const ShellCommand& command) {
  return is_distdl(command, "run");
}

bool runs_distdl(const BatchScript& script) {
  return std::any_of(script.commands.begin(), script.commands.end(), is_distdl_run);
}

bool starts_step(const ShellCommand& command) {
  const std::string program = command.program();
  return program == "srun" || program == "mpirun" || program == "mpiexec" || program == "torchrun" ||
         is_distdl_run(command) || is_distdl(command, "join");
}

std::string srun_value(const ShellCommand& command, std::string_view name, char letter) {
  const std::string with_equals = "--" + std::string(name) + "=", alone = "--" + std::string(name);
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    if (word.starts_with(with_equals)) return word.substr(with_equals.size());
    const bool is_letter = letter != 0 && word.size() >= 2 && word[0] == '-' && word[1] == letter;
    if (is_letter && word.size() > 2) return word.substr(word[2] == '=' ? 3 : 2);
    if ((word == alone || is_letter) && i + 1 < command.words.size()) return command.words[i + 1];
  }
  return "";
}

void lint_steps(const BatchScript& script, const LintFacts& facts, Findings& findings) {
  const ShellCommand* in_background = nullptr;
  bool waits = false;
  const auto cpus = exports_cpus(script) ? 0 : script.options.number("cpus-per-task").value_or(0);
  for (const ShellCommand& command : script.commands) {
    waits = waits || command.program() == "wait";
    if (starts_step(command) && command.in_background) in_background = &command;
    if (!is_srun(command)) continue;
    lint_cpus(cpus, command, findings);
    lint_nodes(script, command, findings);
    lint_mpi(command, facts, findings);
    for (const char* verb : {"run", "join"})
      if (has_distdl(command, verb))
        findings.add(
            "run-in-step", command.line,
            "\"distdl {}\" starts the ranks with srun itself; below srun each task would start them all: call it "
            "without srun",
            verb);
  }
  if (in_background && !waits)
    findings.add("no-wait", in_background->line,
                 "\"{}\" runs in the background, and the script does not wait for it: its end ends the job; add: wait",
                 in_background->program());
}

}  // namespace distdl::submit
