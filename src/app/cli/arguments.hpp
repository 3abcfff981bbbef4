// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <distdl/app/cli/command_entry.hpp>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's name
class App;
class Option;
}  // namespace CLI

// The arguments of commands. Only arguments.cpp includes CLI11, which costs a compiler 20 s per file.
namespace distdl::app {

/// Thrown by a command that has printed all its output. The program ends with this code.
class Ended : public std::exception {
 public:
  explicit Ended(int code) : code_(code) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return "the command has ended"; }

 private:
  int code_;
};

/// The flags that give another distdl command the verbosity() of this process.
std::vector<std::string> verbosity_words();

/// An argument, option or flag of a command. Like a pointer, it can be copied.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  /// Shows the present value of the variable as the default in the help.
  Option& show_default();
  Option& positive();
  Option& not_negative();
  template <typename T>
  Option& within(T least, T most);  ///< T: int, std::int64_t or double
  Option& one_of(const std::vector<std::string>& choices);
  /// `validate` returns an error text, or an empty text.
  Option& check(const std::function<std::string(const std::string&)>& validate);
  /// The name of the value in the help.
  Option& type_name(const std::string& name);
  /// The option may be repeated with one value each time. The list gets all of them.
  Option& repeatable(const std::string& name);
  /// The option takes several values in one word, separated by commas.
  Option& list();
  Option& excludes(Option other);
  Option& needs(Option other);
  bool given() const;

 private:
  CLI::Option* option_;
};

/// A command or subcommand. Like a pointer, it can be copied. Its variables must live as long as the CommandLine. They
/// are written before the callback is called.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  Command add_subcommand(const std::string& name, const std::string& help);
  /// Requires one of the subcommands.
  void require_subcommand();
  /// Adds a group of options of which exactly one must be given.
  Command add_choice(const std::string& name);
  /// "-n,--ranks" is an option, and "NAME" is a positional argument. For bool use add_flag(). Numbers are decimal and
  /// finite. The possible types are instantiated in arguments.cpp.
  template <typename T>
  Option add_option(const std::string& names, T& value, const std::string& help);
  /// "!--no-replay" sets the variable to false.
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  /// Adds a text that the help shows after the options.
  void notes(const std::string& text);
  /// Command lines that a user can type, the most common one first. Help, man page and error messages show them, and
  /// tests/app/examples_test.py runs them.
  void examples(std::vector<Example> examples);
  /// Accepts words that are not options of the command.
  void allow_unknown();
  /// The words that allow_unknown() has accepted, in their order, when the callback is called.
  std::vector<std::string> unknown() const;
  /// The words behind "--" are a program with its arguments, which become the list.
  void program_after_dashes(std::vector<std::string>& program);
  /// Called if the command is given. It throws distdl::Error on failure, or Ended. A command with work has the flags
  /// --quiet and --verbose, which set the verbosity() before.
  void callback(const std::function<void()>& work);

 protected:
  CLI::App* app_;
};

/// The whole command line of the program. A subcommand is required.
class CommandLine : public Command {
 public:
  CommandLine(const std::string& name, const std::string& help);
  ~CommandLine();
  /// The subcommands that were added since the last call stand in this group of the help; "": nowhere, as neither in
  /// the man page and the completions.
  void group(const std::string& name);
  /// Adds the flag --version, which prints what `line` returns.
  void version(const std::function<std::string()>& line);
  /// The help of the program or, unless `words` is empty, of one command: {"checkpoint", "ls"}. Throws UsageError if
  /// there is no such command.
  std::string help(const std::vector<std::string>& words) const;
  /// The whole program as data.
  CommandEntry table() const;
  /// Runs the command in the arguments and returns the exit code. Prints the help on request, and what to do first if
  /// there are no arguments. Throws UsageError for an error in them, and the exceptions of the commands, except Ended.
  int run(int argc, char** argv);
  /// Runs the command in `words`. Throws UsageError for an error in them, and the exceptions of the commands.
  void call(const std::string& words);

 private:
  std::unique_ptr<CLI::App> whole_;
  std::size_t grouped_ = 0;  ///< subcommands that have a group
};

}  // namespace distdl::app
