// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include <distdl/submit/lint/findings.hpp>

// Lints of the script as a text: what sbatch reads of it, and what its shell expands.
namespace distdl::submit {
namespace {
void lint_directives(const BatchScript& script, Findings& findings) {
  for (const auto& [line, why] : script.unread)
    findings.add("option-unreadable", line, "{}; correct the #SBATCH line", why);
  for (const SbatchOption& option : script.late_options)
    findings.add("option-after-command", option.line,
                 "\"--{}\" stands below the first command, where sbatch does not read it; move the line to the other "
                 "#SBATCH lines at the top",
                 option.name);
  for (const SbatchOption& option : script.options.all()) {
    if (!option.is_known)
      findings.add("option-unknown", option.line,
                   "sbatch has no option \"--{}\"; did you mean \"--{}\"? (a release after 23.02 may have it)",
                   option.name, nearest_sbatch_option(option.name));
    const bool has_variable = option.value && option.value->find('$') != std::string::npos && option.name != "wrap";
    if (has_variable)
      findings.add("option-variable", option.line,
                   "\"{}\" has a variable, which sbatch does not expand; write its value, or give the option on "
                   "sbatch's command line",
                   to_word(option));
  }
}

/// The value of rank variables differs in each task, but the batch script has those of the first one.
void lint_rank_variables(const BatchScript& script, Findings& findings) {
  for (const ShellCommand& command : script.commands) {
    if (command.program() == "echo" || command.program() == "printf") continue;
    for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"})
      if (expands_variable(command.text, name))
        findings.add("rank-in-batch-shell", command.line,
                     "the batch script expands ${}, so every rank gets 0; let the task's own shell expand it: srun "
                     "bash -c '... ${} ...'",
                     name, name);
  }
}

/// A number of two to five digits right behind `at`.
std::string port_at(const std::string& text, std::size_t at) {
  const auto end = text.find_first_not_of("0123456789", at);
  const std::string digits = text.substr(at, end == std::string::npos ? end : end - at);
  return digits.size() >= 2 && digits.size() <= 5 ? digits : "";
}

void lint_ports(const BatchScript& script, Findings& findings) {
  for (const ShellCommand& command : script.commands) {
    std::string port;
    for (const char* key : {"MASTER_PORT=", "master_port=", "master-port=", "master_port ", "master-port ",
                            "main_process_port ", "main_process_port=", "rdzv_endpoint=", "rdzv-endpoint="}) {
      auto at = command.text.find(key);
      if (at == std::string::npos) continue;
      at += std::string_view(key).size();
      if (std::string_view(key).starts_with("rdzv")) at = command.text.find(':', at);
      if (at == std::string::npos) continue;
      if (command.text[at] == ':') ++at;
      port = port_at(command.text, at);
      if (!port.empty()) break;
    }
    if (!port.empty())
      findings.add("port-fixed", command.line,
                   "port {} is fixed, so a second job on the same node cannot start; derive it from the job: "
                   "$((20000 + SLURM_JOB_ID % 20000)), or let the program choose one",
                   port);
  }
}
}  // namespace

void lint_text(const BatchScript& script, Findings& findings) {
  if (!script.has_interpreter)
    findings.add("no-interpreter", 1, "the script begins with no interpreter; its first line must be \"#!/bin/bash\"");
  if (script.dos_line > 0)
    findings.add("dos-lines", script.dos_line,
                 "the line ends with a carriage return, as on Windows; remove them: sed -i 's/\\r$//' FILE");
  lint_directives(script, findings);
  lint_rank_variables(script, findings);
  lint_ports(script, findings);
}

}  // namespace distdl::submit
