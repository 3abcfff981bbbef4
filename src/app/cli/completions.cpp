// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/app/cli/completions.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
/// "" is the program itself, "checkpoint ls" a subcommand.
std::string path_of(const CommandEntry& root, const CommandEntry& command) {
  return command.words == root.words ? "" : command.words.substr(root.words.size() + 1);
}

template <class Visit>
void for_each_command(const CommandEntry& command, Visit&& visit) {
  visit(command);
  for (const auto& each : command.subcommands) for_each_command(each, visit);
}

/// In single quotes, for all three shells.
std::string in_single_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

/// fish has its own escape within single quotes.
std::string quoted_for_fish(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

bool takes_key(const OptionEntry& option) {
  return option.value == "KEY=VALUE";
}

std::vector<std::string> words_after(const CommandEntry& command) {
  std::vector<std::string> words;
  for (const auto& each : command.subcommands) words.push_back(each.name);
  for (const auto& option : command.options)
    if (!option.is_positional) words.insert(words.end(), option.names.begin(), option.names.end());
  return words;
}

/// Choices of the first positional argument that has any, separated by spaces; empty: there is none.
std::string choices_of_argument(const CommandEntry& command) {
  for (const auto& option : command.options)
    if (option.is_positional && !option.choices.empty()) return fmt::format("{}", fmt::join(option.choices, " "));
  return "";
}

/// The names of an option as a pattern of "case".
std::string pattern_of(const OptionEntry& option) {
  return fmt::format("{}", fmt::join(option.names, "|"));
}

/// Shell code, the same for bash and zsh, that sets `path` to the command in `words` before the word number `current`,
/// and then `matches`, `kind` (words, keys, files or none) for the word there.
std::string choose_matches(const CommandEntry& root) {
  std::string paths, commands;
  for_each_command(root, [&](const CommandEntry& command) {
    const auto path = path_of(root, command);
    if (!path.empty()) paths += fmt::format("{}{}", paths.empty() ? "" : "|", in_single_quotes(path));
    std::string values, flags;
    for (const auto& option : command.options) {
      if (option.is_positional || option.value.empty()) continue;
      const bool is_number = option.value == "INT" || option.value == "UINT" || option.value == "FLOAT";
      if (takes_key(option))
        values += fmt::format("        {}) kind=keys ;;\n", pattern_of(option));
      else if (!option.choices.empty())
        values += fmt::format("        {}) matches={} ;;\n", pattern_of(option),
                              in_single_quotes(fmt::format("{}", fmt::join(option.choices, " "))));
      else
        values += fmt::format("        {}) kind={} ;;\n", pattern_of(option), is_number ? "none" : "files");
    }
    const auto words = in_single_quotes(fmt::format("{}", fmt::join(words_after(command), " ")));
    // Options are offered after a dash; else what a leaf takes is one of its choices, a file or a folder.
    const auto choices = choices_of_argument(command);
    const auto argument = choices.empty() ? "kind=files" : "matches=" + in_single_quotes(choices);
    const auto otherwise = command.subcommands.empty()
                               ? fmt::format("if [[ $word == -* ]]; then matches={}; else {}; fi", words, argument)
                               : fmt::format("matches={}", words);
    commands += fmt::format("    {})\n      case $before in\n{}        *) {} ;;\n      esac ;;\n",
                            in_single_quotes(path), values, otherwise);
  });
  return fmt::format(
      R"(  local path='' try i
  for ((i = first; i < current; ++i)); do
    try="${{path:+$path }}${{words[i]}}"
    case $try in
      {}) path=$try ;;
    esac
  done
  matches='' kind=words
  case $path in
{}  esac
)",
      paths, commands);
}

std::string for_bash(const CommandEntry& root, const std::vector<std::string>& keys) {
  return fmt::format(R"(# Completion of {0} for bash, made by "{0} completion bash".
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} matches kind first=1 current=$COMP_CWORD
  local -a words=("${{COMP_WORDS[@]}}")
{1}  COMPREPLY=()
  case $kind in
    words) COMPREPLY=($(compgen -W "$matches" -- "$word")) ;;
    keys) COMPREPLY=($(compgen -S = -W '{2}' -- "$word")); compopt -o nospace ;;
    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  esac
}}
complete -F _{0} {0}
)",
                     root.name, choose_matches(root), fmt::join(keys, " "));
}

std::string for_zsh(const CommandEntry& root, const std::vector<std::string>& keys) {
  return fmt::format(R"(#compdef {0}
# Completion of {0} for zsh, made by "{0} completion zsh".
_{0}() {{
  local word=${{words[CURRENT]}} before=${{words[CURRENT - 1]}} matches kind first=2 current=$CURRENT
{1}  case $kind in
    words) compadd -- ${{=matches}} ;;
    keys) compadd -S = -- {2} ;;
    files) _files ;;
  esac
}}
if [[ ${{funcstack[1]}} == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     root.name, choose_matches(root), fmt::join(keys, " "));
}

std::string for_fish(const CommandEntry& root, const std::vector<std::string>& keys) {
  std::string paths, lines;
  for_each_command(root, [&](const CommandEntry& command) {
    const auto path = path_of(root, command);
    if (!path.empty()) paths += " " + quoted_for_fish(path);
    const auto here = fmt::format("complete -c {0} -n \"test (__{0}_path) = '{1}'\"", root.name, path);
    for (const auto& each : command.subcommands)
      lines += fmt::format("{} -f -a {} -d {}\n", here, each.name, quoted_for_fish(each.help));
    if (const auto choices = choices_of_argument(command); !choices.empty())
      lines += fmt::format("{} -f -a '{}'\n", here, choices);
    for (const auto& option : command.options) {
      if (option.is_positional) continue;
      lines += here;
      for (const auto& name : option.names)
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (takes_key(option))
        lines += fmt::format(" -x -a '{}='", fmt::join(keys, "= "));
      else if (!option.choices.empty())
        lines += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
      else if (!option.value.empty())
        lines += " -r";
      lines += fmt::format(" -d {}\n", quoted_for_fish(option.help));
    }
  });
  return fmt::format(R"(# Completion of {0} for fish, made by "{0} completion fish".
function __{0}_path
  set -l path ''
  for word in (commandline -opc)[2..-1]
    set -l try (string trim "$path $word")
    contains -- $try {1}
    and set path $try
  end
  echo $path
end
{2})",
                     root.name, paths, lines);
}
}  // namespace

const std::vector<std::string>& completed_shells() {
  static const std::vector<std::string> shells{"bash", "zsh", "fish"};
  return shells;
}

std::string completion(const std::string& shell, const CommandEntry& root, const std::vector<std::string>& keys) {
  if (shell == "bash") return for_bash(root, keys);
  if (shell == "zsh") return for_zsh(root, keys);
  if (shell == "fish") return for_fish(root, keys);
  throw UsageError(
      fmt::format("there is no completion for \"{}\", only for {}", shell, fmt::join(completed_shells(), ", ")));
}

}  // namespace distdl::app
