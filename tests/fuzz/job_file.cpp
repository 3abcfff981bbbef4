// SPDX-License-Identifier: Apache-2.0
// Any text as a job file, and any texts after --set. Input: the overrides, each with a zero byte behind it, then the
// file.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/config/effects.hpp>
#include <distdl/config/job.hpp>

namespace {
using namespace distdl;

void read(std::string_view input) {
  std::vector<std::string> overrides;
  for (std::size_t end = 0; overrides.size() < 4 && (end = input.find('\0')) != input.npos;
       input.remove_prefix(end + 1))
    overrides.emplace_back(input.substr(0, end));
  static fuzz::MemoryFile file;
  file.put(input);
  const auto job = config::load(file.path(), overrides);
  if (!config::ignored_keys(job).empty()) return;  // a file may not have the keys that overrides leave aside
  const std::string text = config::to_toml(job);
  file.put(text);
  fuzz::demand(config::to_toml(config::load(file.path(), {})) == text, "a job can be written and read again");
}

const fuzz::Target target("job_file", &read);
}  // namespace
