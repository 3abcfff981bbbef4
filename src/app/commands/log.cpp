// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/result_output.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/trace/log_merge.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

struct LogArguments {
  RunArgument run;
  std::int64_t lines = 0;  ///< 0: all
  std::string host, level = "debug";
  bool follow = false;
};

/// Prints the lines that are wanted.
class LogPrinter {
 public:
  explicit LogPrinter(const LogArguments& arguments)
      : host_(arguments.host), level_(severity_from(arguments.level)), console_(STDOUT_FILENO) {}
  bool wants(const observe::LogLine& line) const {
    return line.severity >= level_ && (host_.empty() || line.host == host_);
  }
  /// Lines of ranks name their host; those of "distdl run" do not.
  void print(const observe::LogLine& line) const {
    static constexpr Colour kColours[] = {Colour::none, Colour::none, Colour::yellow, Colour::red};
    const bool names_host = line.text.find(" host=") != std::string::npos;
    const auto text = (names_host ? "" : printable(line.host) + ": ") + printable(line.text);
    fmt::print("{}\n", console_.coloured(text, kColours[static_cast<std::size_t>(line.severity)]));
  }

 private:
  std::string host_;
  Severity level_;
  Console console_;
};

/// Whether the run is over, as far as its folder tells: Slurm is not asked again and again.
bool is_over(const std::filesystem::path& folder) {
  constexpr std::size_t kTail = 4096;  // bytes: the whole journal is only read if these tell of an end
  bool ended = false;
  observe::for_each_record(
      folder / "journal.jsonl",
      [&](const records::Row& row) { ended = row.is<records::JobEnded, records::Finished, records::Stopped>(); },
      kTail);
  if (!ended) return false;
  const auto phase = observe::summarize_run(folder).phase;
  return phase == observe::Phase::finished || phase == observe::Phase::ended || phase == observe::Phase::stopped;
}

void print_what_is_there(const LogArguments& arguments, const LogPrinter& printer, observe::LogMerge& logs) {
  std::deque<observe::LogLine> last;
  const auto most = static_cast<std::size_t>(arguments.lines);
  if (most > 0 && arguments.host.empty() && arguments.level == "debug") logs.skip_to_last(most);
  logs.read(
      [&](const observe::LogLine& line) {
        if (!printer.wants(line)) return;
        if (most == 0) return printer.print(line);
        last.push_back(line);
        if (last.size() > most) last.pop_front();
      },
      !arguments.follow);
  for (const auto& line : last) printer.print(line);
  flush_output();
}

void show_log(const LogArguments& arguments) {
  const auto folder = arguments.run.find();
  const LogPrinter printer(arguments);
  observe::LogMerge logs(folder / "logs");
  print_what_is_there(arguments, printer, logs);
  const auto print = [&](const observe::LogLine& line) {
    if (printer.wants(line)) printer.print(line);
  };
  while (arguments.follow) {
    const bool over = is_over(folder);
    logs.read(print, over);
    flush_output();
    if (over) return;
    pause_output(500ms);
  }
}
}  // namespace

void add_log_command(Command app) {
  auto command = app.add_subcommand("log", "Print the logs of all nodes of a run as one, ordered by time");
  auto arguments = std::make_shared<LogArguments>();
  arguments->run.add_to(command);
  command.add_flag("-f,--follow", arguments->follow, "Go on as lines are written, until the run ends");
  command.add_option("-n,--lines", arguments->lines, "Begin with the last lines only; 0: with all")
      .type_name("LINES")
      .not_negative();
  command.add_option("--host", arguments->host, "Only lines from this node").type_name("HOST");
  command.add_option("--level", arguments->level, "Least severity of the lines")
      .one_of({"debug", "info", "warning", "error"})
      .show_default();
  command.examples({{"distdl log run -n 20", "Print the last lines of all nodes"},
                    {"distdl log -f run", "Print lines as they are written, until the run ends"},
                    {"distdl log run --level warning", "Print warnings and errors only"}});
  command.callback([arguments] { show_log(*arguments); });
}

}  // namespace distdl::app
