// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/submit/batch_script.hpp>
#include <distdl/submit/write_script.hpp>
#include <distdl/version.hpp>

namespace distdl::submit {
namespace {
/// Before the run's folder, in a line of its own.
constexpr std::string_view kRunFolder = "# Run folder: ";
/// Where the parts of train.sbatch begin.
constexpr std::string_view kProgramPart = "# The program: ", kOutsidePart = "# Outside of a job: ",
                           kJobPart = "# distdl starts the workers with srun";

std::size_t begin_of(std::string_view text, std::string_view part) {
  const auto at = text.find(part);
  require<InternalError>(at != std::string_view::npos, "sbatch/train.sbatch has no part \"{}\"", part);
  return at;
}

std::string program_part() {
  const std::string_view text = train_sbatch();
  const auto program = begin_of(text, kProgramPart);
  return std::string(text.substr(program, begin_of(text, kOutsidePart) - program));
}

/// Returns the part of train.sbatch that runs in a job.
std::string job_part() {
  const std::string_view text = train_sbatch();
  return program_part() + std::string(text.substr(begin_of(text, kJobPart)));
}

/// The signals of Slurm reach distdl, which takes the place of the shell.
std::string join_part(const ScriptRequest& request) {
  return program_part() + fmt::format(
                              "# It offers the nodes of this job to the run, and ends when that does.\n"
                              "exec \"$distdl\" join {}\n",
                              quote(request.joins));
}

std::string quoted(const std::vector<std::string>& words) {
  std::vector<std::string> all;
  all.reserve(words.size());
  for (const std::string& word : words) all.push_back(quote(word));
  return fmt::format("{}", fmt::join(all, " "));
}

std::string program_lines(const std::string& program) {
  if (program.empty()) return "";
  return fmt::format(
      "# The program that wrote this script, where it is there and DISTDL names no other one.\n"
      "if [[ -z ${{DISTDL:-}} && -x {0} ]]; then\n  DISTDL={0}\nfi\n\n",
      quote(program));
}

/// All that stands before the program is chosen.
std::string setup_of(const ScriptRequest& request) {
  const std::string& setup = request.setup;
  return (setup.empty() ? "" : setup + (setup.ends_with('\n') ? "\n" : "\n\n")) + program_lines(request.program);
}

std::string arguments_of(const ScriptRequest& request) {
  if (request.tasks.empty())
    return fmt::format("\n# What \"distdl run\" gets.\nset -- {}\n", quoted(request.arguments));
  std::string text = "\n# What \"distdl run\" gets in each task of the job array.\ncase ${SLURM_ARRAY_TASK_ID:-} in\n";
  for (const auto& [number, arguments] : request.tasks)
    text += fmt::format("  {}) set -- {} ;;\n", number, quoted(arguments));
  return text + "  *) echo \"this job is no task of the array\" >&2; exit 64 ;;\nesac\n";
}

void set_if(SbatchOptions& options, const char* name, const std::string& value) {
  if (!value.empty()) options.set(name, value);
}
}  // namespace

std::string write_script(const ScriptRequest& request) {
  for (const SbatchOption& option : request.options.all())
    require<UsageError>(printable(to_word(option)) == to_word(option),
                        "option \"{}\" has characters that no line of a script can hold", to_word(option));
  std::string text = fmt::format(
      "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\n# Written by distdl {}:\n#\n#   {}\n#\n"
      "# To submit it again as it is: sbatch, and the name of this file.\n\n",
      DISTDL_VERSION, printable(request.made_by));
  if (!request.run.empty() && printable(request.run) == request.run)
    text.insert(text.size() - 1, fmt::format("{}{}\n", kRunFolder, request.run));
  for (const SbatchOption& option : request.options.all()) text += fmt::format("#SBATCH {}\n", to_word(option));
  if (!request.joins.empty()) return text + "\n" + setup_of(request) + join_part(request);
  text += arguments_of(request);
  if (!request.chain.empty())
    text += fmt::format(
        "# The job is a link of a chain. The next one goes on where this one ends.\nexport DISTDL_CHAIN={}\n",
        quote(request.chain));
  return text + "\n" + setup_of(request) + job_part();
}

std::optional<std::filesystem::path> run_folder_in(std::string_view script) {
  const auto begin = script.find(fmt::format("\n{}", kRunFolder));
  if (begin == std::string_view::npos) return std::nullopt;
  const auto folder = script.substr(begin + 1 + kRunFolder.size());
  return folder.substr(0, folder.find('\n'));
}

SbatchOptions merge_options(const Options& options, const std::vector<SbatchOption>& command_line) {
  SbatchOptions merged = parse_batch_script(train_sbatch(), "train.sbatch").options;
  set_if(merged, "job-name", options.job_name);
  set_if(merged, "nodes", options.nodes);
  set_if(merged, "time", options.time);
  set_if(merged, "partition", options.partition);
  set_if(merged, "account", options.account);
  set_if(merged, "qos", options.qos);
  set_if(merged, "constraint", options.constraint);
  if (options.tasks_per_node > 0) merged.set("ntasks-per-node", std::to_string(options.tasks_per_node));
  if (options.cpus_per_task > 0) merged.set("cpus-per-task", std::to_string(options.cpus_per_task));
  set_if(merged, "gpus-per-node", options.gpus_per_node);
  set_if(merged, "mem", options.memory);
  set_if(merged, "signal", options.signal);
  if (!options.exclusive) merged.remove("exclusive");
  for (const SbatchOption& option : parse_sbatch_words(split_words(options.options))) merged.set(option);
  for (const SbatchOption& option : command_line) merged.set(option);
  return merged;
}

std::string escape_pattern(const std::string& path) {
  require(path.find('\\') == std::string::npos,
          "\"{}\", where the log of the job is to be, has a backslash, behind which sbatch --output does not put the "
          "job's id into a name: choose a run.dir or sweep.folder without one, or give --output",
          path);
  require(printable(path) == path,
          "\"{}\", where the log of the job is to be, has characters that no line of a script can hold: choose another "
          "run.dir or sweep.folder, or give --output",
          path);
  std::string text;
  for (const char c : path) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

}  // namespace distdl::submit
