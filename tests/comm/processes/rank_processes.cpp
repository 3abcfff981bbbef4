// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/processes/rank_processes.hpp"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::comm {
namespace {
namespace fs = std::filesystem;

fs::path make_folder() {
  std::string name = (fs::path(::testing::TempDir()) / "distdl-ranks-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  return name;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}
}  // namespace

RankProcesses::RankProcesses(const std::string& program, const std::vector<std::string>& arguments, int size,
                             const std::vector<int>& ranks, const Environment& extra)
    : folder_(make_folder()) {
  for (int rank : ranks) start(program, arguments, size, rank, extra);
}

RankProcesses::~RankProcesses() {
  for (auto [rank, pid] : running_) ::kill(pid, SIGKILL);
  for (auto [rank, pid] : running_) ::waitpid(pid, nullptr, 0);
  fs::remove_all(folder_);
}

void RankProcesses::start(const std::string& program, const std::vector<std::string>& arguments, int size, int rank,
                          const Environment& extra) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  const Environment own = {{"DISTDL_RANK", std::to_string(rank)},
                           {"DISTDL_WORLD_SIZE", std::to_string(size)},
                           {"DISTDL_RENDEZVOUS", (folder_ / "meet").string()},
                           {"DISTDL_LAUNCH_ID", "test"}};
  for (const auto& variables : {own, extra})
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  std::vector<std::string> command{program};
  command.insert(command.end(), arguments.begin(), arguments.end());

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&files, 1, (folder_ / fmt::format("out{}", rank)).c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&files, 2, (folder_ / fmt::format("err{}", rank)).c_str(), flags, 0600);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &files, nullptr, pointers(command).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  if (error) throw std::runtime_error(fmt::format("cannot start {}: error {}", program, error));
  running_[rank] = pid;
}

bool RankProcesses::wait_for_line(const std::vector<int>& ranks, const std::string& text, Milliseconds limit) const {
  const Deadline deadline = Deadline::after(limit);
  for (int rank : ranks)
    while (("\n" + output(rank)).find("\n" + text) == std::string::npos) {
      if (deadline.expired()) return false;
      std::this_thread::sleep_for(Milliseconds(5));
    }
  return true;
}

void RankProcesses::signal(int rank, int number) const {
  ::kill(running_.at(rank), number);
}

int RankProcesses::wait(int rank, Milliseconds limit) {
  const Deadline deadline = Deadline::after(limit);
  const pid_t pid = running_.at(rank);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) != pid) {
    if (deadline.expired()) return -1;
    std::this_thread::sleep_for(Milliseconds(2));
  }
  running_.erase(rank);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string RankProcesses::read(const char* kind, int rank) const {
  // Closed on exec, unlike a stream's: another thread may just be starting ranks, which count their descriptors.
  const fs::path path = folder_ / fmt::format("{}{}", kind, rank);
  const FileDescriptor in(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t count = 0; (count = ::read(in.get(), piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(count));
  return text;
}

}  // namespace distdl::comm
