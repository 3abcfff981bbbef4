// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/app/cli/command_entry.hpp>

// Messages about mistakes in a command line. Each text is one line that names the command, the mistake and what to do.
namespace distdl::app {

/// `at` has no subcommand `word`. `root`: the whole program, in which the word may be one of another command.
std::string no_such_command(const CommandEntry& root, const CommandEntry& at, const std::string& word);
/// `at` needs a subcommand.
std::string no_subcommand(const CommandEntry& at);
/// These arguments and options of `at` are required.
std::string missing_arguments(const CommandEntry& at, const std::vector<OptionEntry>& missing);
/// True for "-f" and "--force", and for wrong ones.
bool is_option(const std::string& word);
/// `at` does not know these words.
std::string unexpected_words(const CommandEntry& at, const std::vector<std::string>& words);
/// `mistake`: what the parser says.
std::string other_mistake(const CommandEntry& at, const std::string& mistake);

/// Text for a new user: what to do first.
std::string first_steps();

}  // namespace distdl::app
