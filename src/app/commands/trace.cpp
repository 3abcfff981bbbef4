// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/files/unfinished_file.hpp>
#include <distdl/observe/trace/trace.hpp>
#include <distdl/observe/trace/trace_events.hpp>
#include <distdl/observe/trace/trace_summary.hpp>

namespace distdl::app {
namespace {
struct TraceArguments {
  RunArgument run;
  std::string steps, file;
  bool force = false, json = false;
};

std::optional<train::TracedSteps> steps_in(const std::string& text) try {
  if (text.empty()) return std::nullopt;
  return train::traced_steps_from(text, "--steps");
} catch (const ConfigError& error) {
  throw UsageError(error.what());
}

void write_for_perfetto(const observe::Trace& trace, const std::filesystem::path& folder,
                        const std::filesystem::path& file, Overwrite overwrite) try {
  const RemovesUnfinishedFiles on_interrupt;
  observe::write_trace_file(trace, folder, file, overwrite);
} catch (const StorageError& error) {
  throw StorageError(fmt::format("{}; name another file with -o", error.what()), error.exit_code());
}

void show_trace(const TraceArguments& arguments) {
  const auto steps = steps_in(arguments.steps);
  const auto folder = arguments.run.find();
  std::optional<WorkProgress> progress;
  if (!arguments.json) progress.emplace("reading the trace of " + printable(folder.string()), WorkUnit::bytes, 0);
  const auto trace = observe::read_trace(folder, steps);
  const bool is_named = !arguments.file.empty();
  const auto file = is_named ? std::filesystem::path(arguments.file) : folder / "trace.json";
  if (progress) progress->now("writing " + printable(file.string()));
  write_for_perfetto(trace, folder, file, is_named && !arguments.force ? Overwrite::refuse : Overwrite::replace);
  const auto summary = observe::summarize_trace(trace);
  progress.reset();  // the result takes its place
  if (arguments.json) return fmt::print("{}", observe::to_json_text(summary));
  fmt::print("{}{}: open it in https://ui.perfetto.dev or chrome://tracing\n", observe::to_text(summary),
             printable(file.string()));
}
}  // namespace

void add_trace_command(Command app) {
  auto command = app.add_subcommand(
      "trace", "Show where the time of steps went that all ranks have recorded (log.trace), and write it for Perfetto");
  auto arguments = std::make_shared<TraceArguments>();
  arguments->run.add_to(command);
  command.add_option("--steps", arguments->steps, "Only these steps, the first and the last one, as in 100:110")
      .type_name("A:B");
  command.add_option("-o,--output", arguments->file, "The file for Perfetto; without it, trace.json in the run folder")
      .type_name("FILE");
  command.add_flag("--force", arguments->force, "Replace FILE if it exists");
  command.add_flag("--json", arguments->json, "Print the summary as JSON");
  command.notes("Record steps 100 to 110 with: distdl run job.toml --set log.trace=100:110");
  command.examples(
      {{"distdl trace run", "See where the time of the recorded steps went"},
       {"distdl trace run --steps 3:5 -o steps.json", "The same of three steps, into a file of your own"}});
  command.callback([arguments] { show_trace(*arguments); });
}

}  // namespace distdl::app
