// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/app/cli/man_page.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/version.hpp>

namespace distdl::app {
namespace {
/// For roff: a backslash, a dash that must stay one, and a control character at the start of a line.
std::string in_roff(const std::string& text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    begins = c == '\n';
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

std::string sentence(const std::string& text) {
  return in_roff(text) + (text.ends_with('.') ? "" : ".");
}

std::string in_upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// "\fB\-n\fR, \fB\-\-ranks\fR \fIINT\fR"
std::string term_of(const OptionEntry& option) {
  std::vector<std::string> names;
  for (const auto& name : option.names)
    names.push_back(fmt::format("{}{}\\fR", option.is_positional ? "\\fI" : "\\fB", in_roff(name)));
  const auto value = option.choices.empty() ? option.value : fmt::format("{}", fmt::join(option.choices, "|"));
  const bool shows_value = !option.is_positional && !value.empty();
  return fmt::format("{}{}", fmt::join(names, ", "), shows_value ? " \\fI" + in_roff(value) + "\\fR" : "");
}

std::string option_list(const CommandEntry& command) {
  std::string text;
  for (const auto& option : command.options) {
    const bool is_help = std::ranges::find(option.names, "--help") != option.names.end() ||
                         std::ranges::find(option.names, "--help-all") != option.names.end();
    if (!is_help) text += fmt::format(".TP\n{}\n{}\n", term_of(option), sentence(option.help));
  }
  return text;
}

std::string example_list(const CommandEntry& command) {
  std::string text;
  for (const auto& each : command.examples)
    text += fmt::format(".PP\n{}:\n.PP\n.RS 4\n.nf\n{}\n.fi\n.RE\n", in_roff(each.purpose), in_roff(each.command));
  return text;
}

/// A command and, after it, its subcommands.
std::string section_of(const CommandEntry& command) {
  std::string text = fmt::format(".SS \"{}\"\n{}\n", in_roff(command.usage), sentence(command.help));
  if (command.subcommands.empty()) {
    text += option_list(command);
    if (!command.notes.empty()) text += fmt::format(".PP\n{}\n", in_roff(command.notes));
    text += example_list(command);
  }
  for (const auto& each : command.subcommands) text += section_of(each);
  return text;
}
}  // namespace

std::string man_page(const CommandEntry& root) {
  std::string text =
      fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", in_upper_case(root.name), root.name, version());
  auto summary = root.help;
  if (summary.ends_with('.')) summary.pop_back();
  text += fmt::format(".SH NAME\n{} \\- {}\n", root.name, in_roff(summary));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n.I COMMAND\n[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n", root.name);
  text += ".SH OPTIONS\n" + option_list(root);
  text += ".SH COMMANDS\n";
  for (const auto& each : root.subcommands) text += section_of(each);
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeEntry& each : kExitCodes)
    text += fmt::format(".TP\n.B {}\n{}: {}.\n", static_cast<int>(each.code), each.name,
                        in_roff(std::string(each.meaning)));
  text += ".PP\nA run that has ended with 75 has saved: the same command resumes it.\n";
  text += ".SH SEE ALSO\n.BR sbatch (1),\n.BR srun (1)\n";
  return text;
}

}  // namespace distdl::app
