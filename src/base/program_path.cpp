// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/program_path.hpp>

namespace distdl {

std::string found_on_path(const std::string& program) {
  std::istringstream folders(env("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

bool is_on_path(const std::string& program) {
  return !found_on_path(program).empty();
}

}  // namespace distdl
