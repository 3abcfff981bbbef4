// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/faults/leftovers.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "tests/pace.hpp"

namespace distdl::comm::faults {
namespace {
namespace fs = std::filesystem;

/// "socket:[1234]" becomes "socket:".
std::string kind_of(const std::string& target) {
  return target.starts_with("/") ? target : target.substr(0, target.find('['));
}

std::vector<std::string> more(std::vector<std::string> now, std::vector<std::string> before) {
  std::sort(now.begin(), now.end());
  std::sort(before.begin(), before.end());
  std::vector<std::string> difference;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(difference));
  return difference;
}

}  // namespace

Holdings Holdings::now() {
  Holdings holdings;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (!error && !target.ends_with("/fd")) holdings.descriptors.push_back(kind_of(target));
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, rights, offset, device, inode, path;
    words >> range >> rights >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (rights.ends_with('s')) holdings.mappings.push_back(path);
  }
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/task")) ++holdings.threads;
  return holdings;
}

std::string Holdings::beyond(const Holdings& before) const {
  std::string text;
  if (const auto extra = more(descriptors, before.descriptors); !extra.empty())
    text += fmt::format("descriptors {}; ", extra);
  if (const auto extra = more(mappings, before.mappings); !extra.empty()) text += fmt::format("mappings {}; ", extra);
  if (threads > before.threads) text += fmt::format("{} threads, {} before", threads, before.threads);
  return text;
}

std::string Holdings::left_since(const Holdings& before) {
  const Deadline deadline = Deadline::after(paced(Milliseconds(1000)));
  while (true) {
    const std::string more = now().beyond(before);
    if (more.empty() || deadline.expired()) return more;
    std::this_thread::sleep_for(Milliseconds(1));
  }
}

}  // namespace distdl::comm::faults
