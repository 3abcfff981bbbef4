// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {

namespace {
constexpr const char* kJobHelp = "Job file in TOML; see examples/";
}

void JobArguments::add_to(Command command) {
  command.add_option("job", file, kJobHelp).required();
  command.add_option("--set", overrides, "Override a key of the job file: --set train.epochs=3")
      .repeatable("KEY=VALUE");
}

void JobArguments::add_with_program(Command command) {
  command.add_option("job", file, kJobHelp);
  command.add_option("--set", overrides, "Override a key of the job file: --set train.epochs=3")
      .repeatable("KEY=VALUE");
  command.program_after_dashes(program);
}

config::Job JobArguments::load() const {
  const bool has_program =
      std::ranges::any_of(overrides, [](const std::string& text) { return text.starts_with("run.command="); });
  require<UsageError>(!file.empty() || !program.empty() || has_program, "{}",
                      "\"distdl run\" needs job (Job file in TOML; see examples/), or a program behind \"--\", as in: "
                      "distdl run --local -n 4 job.toml; \"distdl run --help\" explains it");
  auto all = overrides;
  if (!program.empty()) all.push_back(config::override_for(program));
  return config::load(file, all);
}

std::vector<std::string> JobArguments::command_line() const {
  std::vector<std::string> words;
  if (!file.empty()) words.push_back(file.string());
  const auto add = [&words](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  for (const auto& text : overrides) add(text);
  if (!program.empty()) add(config::override_for(program));
  return words;
}

}  // namespace distdl::app
