// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/config/job.hpp>

namespace distdl::app {

/// The arguments `job.toml --set key=value ...` of several subcommands.
struct JobArguments {
  std::filesystem::path file;  ///< empty: the job is a program
  std::vector<std::string> overrides;
  std::vector<std::string> program = {};  ///< the words behind "--"

  void add_to(Command command);
  /// For a command that also takes `-- PROGRAM ...`, with a job file or without.
  void add_with_program(Command command);
  /// Throws UsageError if there is neither a job file nor a program.
  config::Job load() const;
  /// Words that give the same arguments to another distdl command.
  std::vector<std::string> command_line() const;
};

}  // namespace distdl::app
