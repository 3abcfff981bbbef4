// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): as CLI11 has it
class App;
class Option;
}  // namespace CLI

// What the commands take. Only arguments.cpp includes CLI11, which costs a compiler 20 s in each file.
namespace distdl::app {

/// Thrown by a command that has said all there is to say: the program ends with this code.
class Ended : public std::exception {
 public:
  explicit Ended(int code) : code_(code) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return "the command has ended"; }

 private:
  int code_;
};

/// An argument, option or flag of a command; like a pointer, it can be copied.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  /// What the variable holds now is shown in the help as the default.
  Option& show_default();
  Option& positive();
  Option& not_negative();
  template <typename T>
  Option& within(T least, T most);  ///< T: int or double
  Option& one_of(const std::vector<std::string>& choices);
  /// `validate` returns what is wrong with a text, or nothing.
  Option& check(const std::function<std::string(const std::string&)>& validate);
  /// What the help calls the value.
  Option& type_name(const std::string& name);
  /// One value each time that the option is given; the list has all.
  Option& repeatable(const std::string& name);
  /// Several values in one word, with commas.
  Option& list();
  Option& excludes(Option other);
  Option& needs(Option other);
  bool given() const;

 private:
  CLI::Option* option_;
};

/// A command or subcommand; like a pointer, it can be copied. Variables given to it must live as long as the
/// CommandLine; they are written before the callback is called.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}
  Command add_subcommand(const std::string& name, const std::string& help);
  /// One of the subcommands must be given.
  void require_subcommand();
  /// Exactly one of what is added to the result must be given.
  Command add_choice(const std::string& name);
  /// "-n,--ranks" is an option, "NAME" an argument by its place. For bool: use add_flag. For the types that
  /// arguments.cpp names.
  template <typename T>
  Option add_option(const std::string& names, T& value, const std::string& help);
  /// "!--no-replay" makes the variable false.
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  /// What its help ends with.
  void footer(const std::string& text);
  /// Words that are none of the command's options are no error.
  void allow_unknown();
  /// These words, in their order, once the callback is called.
  std::vector<std::string> unknown() const;
  /// Called when the command is given. It throws distdl::Error on failure, or Ended.
  void callback(const std::function<void()>& work);

 protected:
  CLI::App* app_;
};

/// The program's whole command line. One subcommand must be given.
class CommandLine : public Command {
 public:
  CommandLine(const std::string& name, const std::string& help);
  ~CommandLine();
  /// The help of the program or, unless `subcommand` is empty, of one command. Throws UsageError if there is none.
  std::string help(const std::string& subcommand) const;
  /// Calls what the words ask for and returns the exit code; prints the help that was asked for, or what is wrong with
  /// the words. Throws what the commands throw, but for Ended.
  int run(int argc, char** argv);
  /// Calls what the words ask for. Throws UsageError if something is wrong with them, and what the commands throw.
  void call(const std::string& words);

 private:
  std::unique_ptr<CLI::App> whole_;
};

}  // namespace distdl::app
