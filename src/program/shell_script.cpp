// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include <distdl/program/shell_script.hpp>

namespace distdl::program {
namespace {
constexpr std::array<std::string_view, 8> kShells{"bash", "busybox", "dash", "ksh", "ksh93", "mksh", "sh", "zsh"};
constexpr std::size_t kMostProcesses = 256;

std::filesystem::path folder_of(pid_t process) {
  return "/proc/" + std::to_string(process);
}
}  // namespace

std::vector<pid_t> with_those_of_shells(pid_t program) {
  std::vector<pid_t> found{program};
  std::error_code error;
  for (std::size_t i = 0; i < found.size() && found.size() < kMostProcesses; ++i) {
    const auto shell = std::filesystem::read_symlink(folder_of(found[i]) / "exe", error).filename().string();
    if (i == 0 && error == std::errc::no_such_file_or_directory) return {};
    if (error || std::ranges::find(kShells, shell) == kShells.end()) continue;
    std::ifstream children(folder_of(found[i]) / "task" / std::to_string(found[i]) / "children");
    for (pid_t child = 0; children >> child;) found.push_back(child);
  }
  return found;
}

bool handles(pid_t process, int signal) {
  constexpr std::string_view kCaught = "SigCgt:";
  std::ifstream status(folder_of(process) / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kCaught)) {
      const auto mask = std::strtoull(line.c_str() + kCaught.size(), nullptr, 16);
      return (mask >> (signal - 1) & 1U) != 0;
    }
  return false;
}

}  // namespace distdl::program
