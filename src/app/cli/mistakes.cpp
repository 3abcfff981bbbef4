// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/app/cli/mistakes.hpp>
#include <distdl/base/near_word.hpp>

namespace distdl::app {
namespace {
/// Word for a command in other programs.
struct Synonym {
  const char* word;
  const char* command;
};
constexpr Synonym kSynonyms[] = {
    {"benchmark", "distdl bench"},
    {"check", "distdl doctor"},
    {"ckpt", "distdl checkpoint"},
    {"complete", "distdl completion"},
    {"completions", "distdl completion"},
    {"dataset", "distdl data"},
    {"eval", "distdl evaluate"},
    {"forecast", "distdl plan"},
    {"infer", "distdl predict"},
    {"inference", "distdl predict"},
    {"info", "distdl status"},
    {"jobs", "distdl ls"},
    {"kill", "distdl cancel"},
    {"launch", "distdl run"},
    {"list", "distdl ls"},
    {"logs", "distdl log"},
    {"man", "distdl help"},
    {"mlflow", "distdl metrics export"},
    {"monitor", "distdl watch"},
    {"new", "distdl init"},
    {"plot", "distdl report"},
    {"ps", "distdl ls"},
    {"queue", "distdl ls"},
    {"remove", "distdl checkpoint gc"},
    {"restart", "distdl requeue"},
    {"resume", "distdl run"},
    {"rm", "distdl checkpoint gc"},
    {"sample", "distdl generate"},
    {"sbatch", "distdl submit"},
    {"scancel", "distdl cancel"},
    {"squeue", "distdl ls"},
    {"start", "distdl run"},
    {"stat", "distdl status"},
    {"stop", "distdl cancel"},
    {"tensorboard", "distdl metrics export"},
    {"test", "distdl evaluate"},
    {"top", "distdl watch"},
    {"train", "distdl run"},
    {"validate", "distdl evaluate"},
    {"wandb", "distdl metrics export"},
};

std::string help_of(const CommandEntry& at) {
  return fmt::format("\"{} --help\" explains it", at.words);
}

/// Between a mistake and what explains it.
std::string hint(const std::string& instead) {
  return instead.empty() ? ";" : fmt::format("; did you mean \"{}\"?", instead);
}

std::string for_example(const CommandEntry& at) {
  return at.examples.empty() ? "" : fmt::format(", as in: {}", at.examples.front().command);
}

/// The words that call a command of this name anywhere in the tree; empty: there is none.
std::string anywhere(const CommandEntry& from, const std::string& name) {
  for (const auto& each : from.subcommands) {
    if (each.name == name) return each.words;
    if (auto found = anywhere(each, name); !found.empty()) return found;
  }
  return "";
}

std::string synonym_of(const std::string& word) {
  for (const auto& each : kSynonyms)
    if (each.word == word) return each.command;
  return "";
}

/// The words to type instead; empty: nothing is near.
std::string meant(const CommandEntry& root, const CommandEntry& at, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& each : at.subcommands) names.push_back(each.name);
  const bool at_root = at.words == root.words;
  if (at_root) {
    if (auto found = synonym_of(word); !found.empty()) return found;
    for (const auto& each : kSynonyms) names.emplace_back(each.word);
  }
  if (auto found = anywhere(root, word); !found.empty()) return found;
  const auto name = near_word(names, word);
  if (name.empty()) return "";
  const bool is_own = std::ranges::find(at.subcommands, name, &CommandEntry::name) != at.subcommands.end();
  return is_own ? at.words + " " + name : synonym_of(name);
}

std::vector<std::string> names_of(const std::vector<CommandEntry>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const auto& each : commands) names.push_back(each.name);
  return names;
}

/// "job (Job file in TOML)", "--train (Write the predictor to this file)".
std::string described(const OptionEntry& option) {
  return fmt::format("{} ({})", option.names.back(), option.help);
}
}  // namespace

std::string no_such_command(const CommandEntry& root, const CommandEntry& at, const std::string& word) {
  return fmt::format("\"{}\" has no command \"{}\"{} {}", at.words, word, hint(meant(root, at, word)),
                     at.words == root.words ? fmt::format("\"{} help\" lists the commands", root.words)
                                            : fmt::format("it has {}", fmt::join(names_of(at.subcommands), ", ")));
}

std::string no_subcommand(const CommandEntry& at) {
  return fmt::format("\"{}\" needs one of its commands: {}; \"{} --help\" explains them", at.words,
                     fmt::join(names_of(at.subcommands), ", "), at.words);
}

std::string missing_arguments(const CommandEntry& at, const std::vector<OptionEntry>& missing) {
  std::vector<std::string> texts;
  texts.reserve(missing.size());
  for (const auto& each : missing) texts.push_back(described(each));
  return fmt::format("\"{}\" needs {}{}; {}", at.words, fmt::join(texts, " and "), for_example(at), help_of(at));
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word.front() == '-';
}

std::string unexpected_words(const CommandEntry& at, const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(), is_option);
  if (option == words.end()) {
    std::vector<std::string> texts;
    texts.reserve(words.size());
    for (const auto& each : words) texts.push_back(fmt::format("\"{}\"", each));
    return fmt::format("\"{}\" does not expect {}; its usage is: {}; {}", at.words, fmt::join(texts, ", "), at.usage,
                       help_of(at));
  }
  const auto name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const auto& each : at.options)
    for (const auto& one : each.names)
      if (!each.is_positional && one.size() > 2) known.push_back(one);
  return fmt::format("\"{}\" has no option \"{}\"{} {}", at.words, name, hint(near_word(known, name)), help_of(at));
}

std::string other_mistake(const CommandEntry& at, const std::string& mistake) {
  return fmt::format("\"{}\": {}{}; {}", at.words, mistake, for_example(at), help_of(at));
}

std::string first_steps() {
  return R"(distdl trains neural networks as jobs of a Slurm machine, or as processes of this one. To begin:

  distdl data make shapes shapes.h5          make a small data set
  distdl init shapes.h5                      write a job file for it, job.toml
  distdl run --local -n 2 job.toml           train on this machine, with 2 ranks
  distdl status run-shapes-lenet             see how the run went
  distdl submit job.toml --nodes=2           train on nodes of Slurm

"distdl help" lists all commands, "distdl help run" explains one, "distdl doctor" checks this machine.
)";
}

}  // namespace distdl::app
