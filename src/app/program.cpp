// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/program.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl::app {
namespace {
/// The exit code must be right even if nothing can be written.
int complain(const char* about, const char* message, ExitCode code) noexcept {
  try {
    const Console console(STDERR_FILENO);
    constexpr int kIndent = 2;
    const auto text = fmt::format("distdl: {}{}", about, printable(message));
    console.line(console.is_terminal() ? wrapped(text, console.width() - 1, kIndent) : text);
  } catch (const std::exception&) {
    write_console(STDERR_FILENO, "distdl: there is no memory left for an error message\n");
  }
  return static_cast<int>(code);
}

int complain_of_unexpected(const std::exception& error) noexcept {
  const ExitCode code = exit_code_of(error);
  if (code == ExitCode::internal) return complain("internal error: ", error.what(), code);
  try {
    return complain("", message_of(error).c_str(), code);
  } catch (const std::exception&) {
    return complain("", error.what(), code);
  }
}

/// A reader that has closed the pipe (head) has what it wanted.
int output_lost(int error) {
  if (error == EPIPE) return static_cast<int>(ExitCode::ok);
  return complain("", fmt::format("cannot write the result to stdout: {}", errno_text(error)).c_str(),
                  ExitCode::storage);
}

/// A result that did not get out is a failure of the command, unless it has failed anyhow.
int with_output_written(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written || code != 0 ? code : output_lost(errno);
}

std::string exit_codes() {
  std::string list;
  for (const ExitCodeEntry& entry : kExitCodes)
    list += fmt::format("{}{}{} {}", list.empty() ? "" : ",", entry.code == ExitCode::superseded ? "\n" : " ",
                        static_cast<int>(entry.code), entry.name);
  return fmt::format("Exit codes:{}. Run again after 75 (stopped and saved). See docs/exit-codes.md.", list);
}

int run(int argc, char** argv) {
  CommandLine line("distdl", "Distributed deep learning as a first-class job of a Slurm machine.");
  const Command& app = line;  // commands take it by value
  for (const auto& each : kCommands) {
    each.add(app);
    line.group(each.name);
  }
  add_help_command(line);
  add_completion_command(line);
  line.group(kLastGroup);
  line.version(version_text);
  line.notes(exit_codes());
  line.examples({{"distdl run --local -n 2 job.toml", "Train on this machine"},
                 {"distdl submit job.toml --nodes=8 --time=12:00:00", "Train on nodes of Slurm"},
                 {"distdl status run", "See what a run is doing"}});
  return line.run(argc, argv);
}
}  // namespace

int program(int argc, char** argv) noexcept {
  before_libraries();  // once more, for the main() of others
  prepare_process();
  answer_early_stops(argc, argv);
  try {
    return with_output_written(run(argc, argv));
  } catch (const Error& error) {
    return complain("", error.what(), error.exit_code());
  } catch (const std::exception& error) {
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && std::ferror(stdout) != 0) return output_lost(system->code().value());
    return complain_of_unexpected(error);
  }
}

}  // namespace distdl::app
