// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/slurm/own_step.hpp>

namespace distdl::slurm {
namespace {
constexpr std::string_view kStepd = "slurmstepd: [";
constexpr int kMostParents = 64;

std::string title_of(pid_t process) {
  std::string title;
  std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", process)), title, '\0');
  return title;
}

/// 0 where it is not known.
pid_t parent_of(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  constexpr std::string_view kKey = "PPid:";
  pid_t parent = 0;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    const auto digits = std::min(line.find_first_of("0123456789"), line.size());
    std::from_chars(line.data() + digits, line.data() + line.size(), parent);
    break;
  }
  return parent;
}

/// srun sets it for each step.
int tasks_of_step() {
  int tasks = 1;
  const auto text = env("SLURM_STEP_NUM_TASKS").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), tasks);
  return std::max(1, tasks);
}
}  // namespace

std::optional<std::string> step_in_title(const std::string& title) {
  const auto end = title.find(']');
  if (!title.starts_with(kStepd) || end == std::string::npos) return std::nullopt;
  const std::string id = title.substr(kStepd.size(), end - kStepd.size());
  const auto dot = id.rfind('.');
  const bool is_of_srun = dot != std::string::npos && dot + 1 < id.size() &&
                          id.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return is_of_srun ? std::optional(id) : std::nullopt;
}

std::optional<OwnStep> own_step() {
  pid_t process = ::getpid();
  for (int i = 0; i < kMostParents && process > 1; ++i) {
    const std::string title = title_of(process);
    if (title.starts_with(kStepd)) {
      const auto id = step_in_title(title);
      return id ? std::optional(OwnStep{*id, tasks_of_step()}) : std::nullopt;
    }
    process = parent_of(process);
  }
  return std::nullopt;
}

}  // namespace distdl::slurm
