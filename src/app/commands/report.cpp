// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/report/page.hpp>
#include <distdl/app/report/report_data.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/watch/run_reader.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::app {
namespace {
struct ReportArguments {
  std::vector<std::string> runs;
  std::string file = "report.html";
};

/// No other file is replaced than a page of an earlier report.
void require_page(const std::filesystem::path& file) {
  constexpr std::string_view kBegin = "<!DOCTYPE html>";
  std::error_code ignored;
  std::ifstream in(file);
  require<StorageError>(in.is_open() || !std::filesystem::exists(file, ignored),
                        "cannot read \"{}\", which a report would replace; write to another file", file.string());
  std::string begin(kBegin.size(), ' ');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  require<UsageError>(begin.empty() || begin == kBegin,
                      "\"{}\" is no report, and is not replaced by one; remove it first, or write to another file",
                      file.string());
}

void write_report(const ReportArguments& arguments) {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> names;
  for (auto& [name, folder] : find_runs(arguments.runs)) {
    names.push_back(std::move(name));
    folders.push_back(std::move(folder));
  }
  if (names.empty()) {
    folders.push_back(newest_run());
    names.push_back(folders.front().string());
  }
  std::error_code ignored;  // then what is not resolved cannot be written either
  auto file = std::filesystem::absolute(arguments.file);
  if (std::filesystem::is_symlink(file, ignored)) file = std::filesystem::weakly_canonical(file, ignored);
  check_replaceable(file);  // rather now than when all is read
  require_page(file);
  std::optional<WorkProgress> progress(
      std::in_place, folders.size() > 1 ? "reading the runs" : "reading " + printable(folders.front().string()),
      WorkUnit::rounds, folders.size() > 1 ? folders.size() : 0);
  std::vector<ReportedRun> runs;
  auto views = RunFiles::read_whole(folders);
  for (std::size_t i = 0; i < views.size(); ++i) runs.push_back(reported_run(names[i], std::move(views[i])));
  const auto page = page_of(report_data(runs, seconds_since_1970()));
  replace_text(real_file_system(), resolved_place(file), page);
  progress.reset();  // the result takes its place
  fmt::print("{}: {} {}, {:.1f} MiB; open it in a browser\n", printable(arguments.file), runs.size(),
             runs.size() == 1 ? "run" : "runs", static_cast<double>(page.size()) / (1 << 20));
}
}  // namespace

void add_report_command(Command app) {
  auto command = app.add_subcommand(
      "report", "Write a page for a browser about one run or several: curves, goodput, ranks, nodes, faults, job");
  auto arguments = std::make_shared<ReportArguments>();
  command.add_option(
      "RUN", arguments->runs,
      "Runs, as of \"distdl status\", or the folder of a sweep; default: the folder \"run\", else the newest run");
  command.add_option("-o,--output", arguments->file, "The file; an earlier report there is replaced")
      .type_name("FILE")
      .show_default();
  command.notes("The page is one file that loads nothing else: it can be sent by mail, and opened offline.");
  command.examples(
      {{"distdl report run", "Write report.html about a run"},
       {"distdl report run small -o both.html", "Compare two runs, with their curves in the same charts"}});
  command.callback([arguments] { write_report(*arguments); });
}

}  // namespace distdl::app
