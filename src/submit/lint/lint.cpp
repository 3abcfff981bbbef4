// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/submit/lint/findings.hpp>

namespace distdl::submit {
namespace {
const LintRule& rule_named(std::string_view name) {
  for (const LintRule& rule : kLintRules)
    if (rule.name == name) return rule;
  throw InternalError(fmt::format("there is no lint \"{}\"", name));
}
}  // namespace

void Findings::add_text(std::string_view rule, int line, std::string message) {
  const LintRule& known = rule_named(rule);
  findings_.push_back({known.name, known.level, line, std::move(message)});
}

std::vector<LintFinding> lint(const BatchScript& script, const LintFacts& facts) {
  Findings findings;
  lint_text(script, findings);
  lint_options(script, facts, findings);
  lint_signal(script, facts, findings);
  lint_steps(script, facts, findings);
  lint_folder(script, facts, findings);
  if (!facts.memory_problem.empty()) findings.add("memory-too-small", 0, "{}", facts.memory_problem);
  if (!facts.tensor_problem.empty()) findings.add("tensor-group-divided", 0, "{}", facts.tensor_problem);
  auto all = findings.take();
  std::stable_sort(all.begin(), all.end(), [](const LintFinding& a, const LintFinding& b) { return a.line < b.line; });
  return all;
}

const char* name_of(LintLevel level) {
  static constexpr const char* kNames[] = {"note", "warning", "error"};
  return kNames[static_cast<std::size_t>(level)];
}

std::string to_text(const LintFinding& finding, const std::string& script_name) {
  const auto where =
      finding.line > 0 ? fmt::format("{}:{}", printable(script_name), finding.line) : printable(script_name);
  return fmt::format("{}: {}: {}: {}", where, name_of(finding.level), finding.rule, printable(finding.message));
}

}  // namespace distdl::submit
