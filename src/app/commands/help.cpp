// SPDX-License-Identifier: Apache-2.0
// distdl help | completion
#include <memory>

#include <fmt/format.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/completions.hpp>
#include <distdl/app/cli/man_page.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/config/job.hpp>

namespace distdl::app {

void add_help_command(CommandLine& line) {
  auto command = line.add_subcommand("help", "Print the help of distdl or of one command");
  struct Arguments {
    std::vector<std::string> words;
    bool man = false;
  };
  auto arguments = std::make_shared<Arguments>();
  command.add_option("COMMAND", arguments->words, "Command to explain");
  command.add_flag("--man", arguments->man, "Print the manual page of all commands, in roff");
  command.examples({{"distdl help run", "Explain a command"},
                    {"distdl help checkpoint export", "Explain one of its commands"},
                    {"distdl help --man > distdl.1", "Write the manual page, as installed for \"man distdl\""}});
  command.callback([&line, arguments] {
    arguments->man ? print_paged(man_page(line.table())) : print_columns(line.help(arguments->words));
  });
}

void add_completion_command(CommandLine& line) {
  auto command = line.add_subcommand("completion", "Print a script by which a shell completes commands and options");
  auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "The shell").one_of(completed_shells()).required();
  command.notes("An installed distdl brings these scripts along, where the shells look for them.");
  command.examples({{"source <(distdl completion bash)", "Complete in this bash"},
                    {"distdl completion fish > distdl.fish", "Write the script for fish to a file"}});
  command.callback([&line, shell] { fmt::print("{}", completion(*shell, line.table(), config::keys())); });
}

}  // namespace distdl::app
