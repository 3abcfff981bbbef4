// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::program {

/// The signal that asks a program to save and stop.
enum class StopSignal { term, usr1, usr2, interrupt, hangup };
constexpr std::array<Named<StopSignal>, 5> choices_of(StopSignal) {
  return {{
      {StopSignal::term, "TERM", ""},
      {StopSignal::usr1, "USR1", ""},
      {StopSignal::usr2, "USR2", ""},
      {StopSignal::interrupt, "INT", ""},
      {StopSignal::hangup, "HUP", ""},
  }};
}
int number_of(StopSignal signal);

/// The ranks whose output the console shows. The log of the run has that of all.
enum class ShownOutput { all, first, none };
constexpr std::array<Named<ShownOutput>, 3> choices_of(ShownOutput) {
  return {{
      {ShownOutput::all, "all", "with the rank at the beginning of each line, if there are several"},
      {ShownOutput::first, "first", "of rank 0 only"},
      {ShownOutput::none, "none", ""},
  }};
}

struct Options {
  std::vector<std::string> command = {};     ///< program and arguments that each rank runs; empty: distdl trains
  std::vector<std::string> container = {};   ///< words before the command
  std::vector<std::string> parameters = {};  ///< NAME=VALUE, for {NAME} in the command
  OneOf<StopSignal> stop_signal = StopSignal::term;
  std::string progress_pattern = {};      ///< regular expression (ECMAScript); empty: none
  std::string progress_file = {};         ///< empty: none
  std::vector<std::string> metrics = {};  ///< NAME=PATTERN
  OneOf<ShownOutput> output = ShownOutput::all;

  bool is_given() const { return !command.empty(); }
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("run.command", options.command,
        "a program and its arguments, as a list: each rank runs it, in place of training (docs/programs.md); "
        "`distdl run -- PROGRAM ...` sets it");
  visit("run.container", options.container,
        "words that start the program in a container, as a list: [\"apptainer\", \"exec\", \"--nv\", \"image.sif\"]");
  visit("run.parameters", options.parameters,
        "values for {NAME} in run.command, as a table: [run.parameters] with lr = 0.1, --set run.parameters.lr=0.1, or "
        "a list of \"NAME=VALUE\"; a sweep varies them");
  visit("run.stop_signal", options.stop_signal,
        OneOf<StopSignal>::help("the signal that asks the program to save and stop, unless it asks itself"));
  visit("run.progress_pattern", options.progress_pattern,
        "a regular expression for lines of the output of rank 0: its first group is the number of steps that are done, "
        "a second one, if there is one, how many there are");
  visit(
      "run.progress_file", options.progress_file,
      "a file in which rank 0 notes its progress, below the run folder or with its whole path: each change is a sign "
      "of life, its last line may be a number of steps or have run.progress_pattern; or an event file of TensorBoard, "
      "or the folder of such: steps and scalars");
  visit("run.metrics", options.metrics,
        "metrics in the output of rank 0, as a list of \"NAME=EXPRESSION\" with one group: the number");
  visit("run.output", options.output, OneOf<ShownOutput>::help("the ranks whose output the console shows"));
}

/// The command with the values of the parameters. Braces with another text in them stay as they are.
std::vector<std::string> command_of(const Options& options);

/// The name of a parameter if `key` is "run.parameters.NAME"; else an empty text.
std::string parameter_named(const std::string& key);
/// Adds a parameter, or replaces its value.
void set_parameter(Options& options, const std::string& name, const std::string& value);

/// Throws ConfigError for a parameter that the command does not have, and for a pattern that is no regular expression,
/// or lacks its group.
void check(const Options& options);

}  // namespace distdl::program
