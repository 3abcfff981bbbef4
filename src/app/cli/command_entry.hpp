// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// The command line as data: what help, man page, completions and error messages are made from.
namespace distdl::app {

/// A command line that a user can type, and what it is good for.
struct Example {
  std::string command;
  std::string purpose;  ///< begins with a capital letter, without a full stop
};

/// An argument, option or flag.
struct OptionEntry {
  std::vector<std::string> names;    ///< "-n" and "--ranks", or the one name of a positional argument
  std::string value;                 ///< what stands for its value in the help, "INT"; empty: a flag
  std::string help;                  ///< one sentence, without a full stop
  std::vector<std::string> choices;  ///< its possible values; empty: any
  bool is_positional = false, is_required = false;
};

struct CommandEntry {
  std::string name;   ///< "ls"
  std::string words;  ///< all that is typed to call it: "distdl checkpoint ls"
  std::string help;   ///< one sentence, without a full stop
  std::string usage;  ///< "distdl checkpoint ls [OPTIONS] DIR"
  std::string notes;  ///< after the options; may be empty
  std::vector<Example> examples;
  std::vector<OptionEntry> options;
  std::vector<CommandEntry> subcommands;
};

}  // namespace distdl::app
