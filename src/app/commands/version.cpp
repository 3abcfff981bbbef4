// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/commands.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/version.hpp>

namespace distdl::app {

std::string version_line() {
  return fmt::format("distdl {} (backends: {})", version(), fmt::join(kernels::built_backends(), ", "));
}

void add_version_command(Command app) {
  auto command = app.add_subcommand("version", "Print version and built-in backends");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print JSON");
  command.examples({{"distdl version", "Print the version"}, {"distdl version --json", "Print it for programs"}});
  command.callback([json] {
    if (*json)
      fmt::print("{}\n",
                 nlohmann::ordered_json{{"version", version()}, {"backends", kernels::built_backends()}}.dump(2));
    else
      fmt::print("{}\n", version_line());
  });
}

}  // namespace distdl::app
