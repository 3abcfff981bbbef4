// SPDX-License-Identifier: Apache-2.0
#include <distdl/app/cli/job_arguments.hpp>

namespace distdl::app {

void JobArguments::add_to(Command command) {
  command.add_option("job", file, "Job file in TOML; see examples/").required();
  command.add_option("--set", overrides, "Override a key of the job file: --set train.epochs=3")
      .repeatable("KEY=VALUE");
}

std::vector<std::string> JobArguments::command_line() const {
  std::vector<std::string> words{file.string()};
  for (const auto& text : overrides) {
    words.emplace_back("--set");
    words.push_back(text);
  }
  return words;
}

}  // namespace distdl::app
