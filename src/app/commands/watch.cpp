// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/watch/run_reader.hpp>
#include <distdl/app/watch/screen.hpp>
#include <distdl/app/watch/status_text.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/terminal.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

struct WatchArguments {
  std::vector<std::string> runs;
  bool once = false;
};

std::vector<std::filesystem::path> folders_of(const WatchArguments& arguments) {
  if (arguments.runs.empty()) return {newest_run()};
  std::vector<std::filesystem::path> folders;
  for (auto& run : find_runs(arguments.runs)) folders.push_back(std::move(run.folder));
  return folders;
}

void print_once(const std::vector<std::filesystem::path>& folders) {
  const auto views = RunFiles(folders).read();
  for (std::size_t i = 0; i < views.size(); ++i) fmt::print("{}{}", i > 0 ? "\n" : "", status_text(views[i], true));
}

ScreenLook look_at(const Console& console) {
  return {console.width(), console.height(), console.has_colour(), console.has_utf8()};
}

void show_until_quit(Terminal& terminal, const std::vector<std::filesystem::path>& folders) {
  constexpr Milliseconds kLook = 200ms;  // for what was read
  constexpr char kControlL = 'L' & 0x1f;
  RunReader reader(folders);
  auto views = unread_views(folders);
  ScreenState state{.is_open = folders.size() == 1};
  for (bool changed = true;;) {
    if (auto newer = reader.take()) {
      views = std::move(*newer);
      changed = true;
    }
    if (changed) terminal.show(draw_screen(views, state, look_at(terminal.console())));
    const auto input = terminal.wait(kLook);
    changed = input.event != Terminal::Event::nothing;
    if (input.event == Terminal::Event::closed) return;
    if (input.event != Terminal::Event::key) continue;
    if (input.press == KeyPress{Key::character, kControlL}) terminal.forget();
    if (!press(input.press, state, views, look_at(terminal.console()))) return;
  }
}

void watch_runs(const WatchArguments& arguments) {
  const auto folders = folders_of(arguments);
  if (!arguments.once) {
    Terminal terminal(STDIN_FILENO, STDOUT_FILENO);
    if (terminal.is_open()) {
      LogOptions silent;  // a warning would lie across the screen, which tells what matters
      silent.console = false;
      start_logging(silent);
      return show_until_quit(terminal, folders);
    }
  }
  print_once(folders);
}
}  // namespace

void add_watch_command(Command app) {
  auto command = app.add_subcommand(
      "watch", "Show on the whole terminal how runs go: progress, time left, curves, ranks, nodes, faults");
  auto arguments = std::make_shared<WatchArguments>();
  command.add_option(
      "RUN", arguments->runs,
      "Runs, as of \"distdl status\", or the folder of a sweep; default: the folder \"run\", else the newest run");
  command.add_flag("--once", arguments->once,
                   "Print the state of now as plain text and end, as where the output is no terminal");
  command.notes("Keys: q ends, ? lists the others.");
  command.examples({{"distdl watch run", "Follow a run until you press q"},
                    {"distdl watch run small", "Follow several runs, one line each; Enter opens one"},
                    {"distdl watch --once run", "Print the state of now, for scripts"}});
  command.callback([arguments] { watch_runs(*arguments); });
}

}  // namespace distdl::app
