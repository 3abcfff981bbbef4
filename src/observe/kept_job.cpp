// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/kept_job.hpp>

namespace distdl::observe {
namespace {
constexpr const char* kJobName = "job.toml";
constexpr std::uint64_t kMostJobBytes = 1 << 20;
}  // namespace

void keep_job(const std::filesystem::path& run_folder, const std::string& text) try {
  if (kept_job(run_folder) != text) replace_text(real_file_system(), resolved(run_folder) / kJobName, text);
} catch (const StorageError& error) {
  log(Severity::warning, "{}; the run folder does not tell its job", error.what());
}

std::optional<std::string> kept_job(const std::filesystem::path& run_folder) {
  return read_text(real_file_system(), run_folder / kJobName, kMostJobBytes);
}

std::map<std::string, std::string> keys_of_job(const std::string& toml) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(toml);
  std::string section;
  int alerts = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "[[alert]]")
      section = fmt::format("alert {}.", ++alerts);
    else if (line.starts_with('[') && line.ends_with(']'))
      section = line.substr(1, line.size() - 2) + ".";
    const auto equals = line.find(" = ");
    if (equals != std::string::npos && !line.starts_with('#'))
      keys[section + line.substr(0, equals)] = line.substr(equals + 3);
  }
  return keys;
}

}  // namespace distdl::observe
