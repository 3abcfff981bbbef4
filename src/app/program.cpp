// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <distdl/app/commands.hpp>
#include <distdl/app/program.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>

namespace distdl::app {
namespace {
/// Even where nothing can be written any more, the exit code must tell.
int complain(const char* about, const char* message, ExitCode code) noexcept {
  std::fprintf(stderr, "distdl: %s%s\n", about, message);
  return static_cast<int>(code);
}

/// "distdl help", "distdl help run": what --help says.
void add_help_command(CLI::App& app) {
  auto* command = app.add_subcommand("help", "Print the help of distdl or of one subcommand");
  auto name = std::make_shared<std::string>();
  command->add_option("subcommand", *name, "Which one");
  command->callback([&app, name] {
    auto named = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == *name; });
    require<UsageError>(name->empty() || !named.empty(), "there is no subcommand \"{}\"; \"distdl help\" lists them",
                        *name);
    const CLI::App* about = name->empty() ? &app : named.front();  // App::help() would explain "help"
    auto title = name->empty() ? app.get_name() : app.get_name() + " " + *name;
    fmt::print("{}", app.get_formatter()->make_help(about, title, CLI::AppFormatMode::Normal));
  });
}

int run(int argc, char** argv) {
  CLI::App app("Distributed deep learning as a first-class job of a Slurm machine.", "distdl");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of every subcommand");
  add_run_command(app);
  add_data_command(app);
  add_checkpoint_command(app);
  add_evaluate_commands(app);
  add_generate_command(app);
  add_config_command(app);
  add_bench_command(app);
  add_doctor_command(app);
  add_worker_command(app);
  add_version_command(app);
  add_help_command(app);
  app.footer(
      "Exit codes: 0 ok, 2 corrupt, 3 incomplete, 4 incompatible, 64 usage, 69 peer lost, 70 internal, 71 scheduler,\n"
      "73 superseded, 74 storage, 75 stopped and saved (run again), 78 configuration. See docs/exit-codes.md.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::RuntimeError& result) {
    return result.get_exit_code();
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return static_cast<int>(ExitCode::usage);
  }
  return 0;
}
}  // namespace

int program(int argc, char** argv) noexcept {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    return complain("", error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return complain("internal error: ", error.what(), ExitCode::internal);
  }
}

}  // namespace distdl::app
