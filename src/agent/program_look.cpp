// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <distdl/agent/program_look.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/process_age.hpp>
#include <distdl/base/program_path.hpp>

namespace distdl::agent {
namespace {
std::vector<pid_t> started_by(pid_t process) {
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", process));
  std::vector<pid_t> processes;
  for (pid_t one = 0; in >> one;) processes.push_back(one);
  return processes;
}

bool is_python(pid_t process) {
  std::error_code error;
  const auto file = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", process), error);
  return !error && file.filename().string().starts_with("python");
}

/// The program, or the nearest of its descendants that Python runs in: a shell or a container may have started it.
std::optional<pid_t> python_of(pid_t program) {
  constexpr int kMost = 64;
  std::deque<pid_t> left{program};
  for (int i = 0; i < kMost && !left.empty(); ++i) {
    const pid_t one = left.front();
    left.pop_front();
    if (is_python(one)) return one;
    for (const pid_t other : started_by(one)) left.push_back(other);
  }
  return std::nullopt;
}

std::string first_line(const std::string& text) {
  return text.substr(0, std::min<std::size_t>(text.find('\n'), 200));
}

std::vector<std::string> stack_by_py_spy(pid_t process, Milliseconds timeout) {
  static constexpr const char* kName = "py-spy";
  if (!is_on_path(kName)) return {"no stack of Python: py-spy is not on PATH here (pip install py-spy)"};
  const auto told = run_command({kName, "dump", "--nonblocking", "--pid", std::to_string(process)}, timeout);
  if (told.exit_code == 124)
    return {fmt::format("no stack of Python: py-spy has not answered in {} ms", timeout.count())};
  if (told.exit_code != 0) return {"no stack of Python: py-spy says: " + first_line(told.errors)};
  return stacks_in(told.output);
}
}  // namespace

std::vector<std::string> stacks_in(const std::string& dump) {
  constexpr std::size_t kMost = 64, kLongest = 200;
  std::vector<std::string> lines;
  std::istringstream in(dump);
  bool has_begun = false;
  for (std::string line; lines.size() < kMost && std::getline(in, line);) {
    has_begun = has_begun || line.starts_with("Thread");
    const auto begin = line.find_first_not_of(" \t\r");
    if (has_begun && begin != std::string::npos) lines.push_back(line.substr(begin, kLongest));
  }
  return lines;
}

std::optional<ThreadReport> look_at_program(pid_t rank_process, Milliseconds timeout) {
  const auto started = started_by(rank_process);
  if (started.empty()) return std::nullopt;
  const auto python = python_of(started.front());
  const pid_t process = python.value_or(started.front());
  ThreadReport report{.name = "program", .phase = "its own code"};
  if (const auto age = age_of_process(process)) report.seconds = std::chrono::duration<double>(*age).count();
  report.state = state_of_process(process, process);
  report.kernel = kernel_function(process, process);
  if (python) report.stack = stack_by_py_spy(process, timeout);
  return report;
}

}  // namespace distdl::agent
