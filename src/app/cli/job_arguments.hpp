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
  std::filesystem::path file;
  std::vector<std::string> overrides;

  void add_to(Command command);
  config::Job load() const { return config::load(file, overrides); }
  /// Words that give the same arguments to another distdl command.
  std::vector<std::string> command_line() const;
};

}  // namespace distdl::app
