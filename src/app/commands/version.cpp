// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/commands/built_with.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/version.hpp>

namespace distdl::app {

namespace {
nlohmann::ordered_json as_json() {
  const BuiltWith& built = built_with();
  nlohmann::ordered_json libraries = nlohmann::ordered_json::object();
  for (const auto& [name, number] : built.libraries) libraries[name] = number;
  return {{"version", version()},           {"backends", kernels::built_backends()},
          {"commit", built.commit},         {"compiler", built.compiler},
          {"processor", built.processor},   {"type", built.type},
          {"sanitizers", built.sanitizers}, {"libraries", libraries}};
}
}  // namespace

std::string version_text() {
  const BuiltWith& built = built_with();
  std::string text =
      fmt::format("distdl {} (backends: {})\nbuilt by {} for {}, {}", version(),
                  fmt::join(kernels::built_backends(), ", "), built.compiler, built.processor, built.type);
  if (!built.sanitizers.empty()) text += fmt::format(", with sanitizers: {}", built.sanitizers);
  if (!built.commit.empty()) text += fmt::format(", of commit {}", built.commit);
  text += "\nwith";
  for (const auto& [name, number] : built.libraries)
    text += fmt::format("{} {} {}", &name == &built.libraries.front().first ? "" : ",", name, number);
  return text;
}

void add_version_command(Command app) {
  auto command = app.add_subcommand("version", "Print version, built-in backends, and how it was built");
  auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Print JSON");
  command.examples({{"distdl version", "Print the version"}, {"distdl version --json", "Print it for programs"}});
  command.callback([json] { fmt::print("{}\n", *json ? as_json().dump(2) : version_text()); });
}

}  // namespace distdl::app
