// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <distdl/submit/lint.hpp>

namespace distdl::submit {

/// Collects what is found.
class Findings {
 public:
  /// At the level of the rule. Throws InternalError if there is no such rule.
  template <class... Args>
  void add(std::string_view rule, int line, fmt::format_string<Args...> message, Args&&... args) {
    add_text(rule, line, fmt::format(message, std::forward<Args>(args)...));
  }
  /// Sets the level of the finding that was added last.
  void set_level(LintLevel level) { findings_.back().level = level; }
  std::vector<LintFinding> take() { return std::move(findings_); }

 private:
  void add_text(std::string_view rule, int line, std::string message);

  std::vector<LintFinding> findings_;
};

/// Whether the script lets "distdl run" start the ranks; where that command is.
bool is_distdl_run(const ShellCommand& command);
bool runs_distdl(const BatchScript& script);
/// srun, mpirun, mpiexec, "distdl run", "distdl join": what starts ranks.
bool starts_step(const ShellCommand& command);
/// The value of an option of srun in its words; empty if it is missing. `letter`: 0: none.
std::string srun_value(const ShellCommand& command, std::string_view name, char letter);

void lint_text(const BatchScript& script, Findings& findings);
void lint_options(const BatchScript& script, const LintFacts& facts, Findings& findings);
void lint_signal(const BatchScript& script, const LintFacts& facts, Findings& findings);
void lint_steps(const BatchScript& script, const LintFacts& facts, Findings& findings);
void lint_folder(const BatchScript& script, const LintFacts& facts, Findings& findings);

}  // namespace distdl::submit
