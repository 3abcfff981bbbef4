// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include <unistd.h>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/slurm_variables.hpp>

namespace distdl {
namespace {
std::mutex mutex;

/// Names that set_env_default() has set.
std::set<std::string>& defaults() {
  static std::set<std::string> names;
  return names;
}
}  // namespace

std::optional<std::string> env(const std::string& name) {
  std::lock_guard lock(mutex);
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): guarded by the mutex
  std::optional<std::string> found;
  if (value && *value) found = value;
  return found;
}

std::optional<long long> env_integer(const std::string& name) {
  const auto text = env(name);
  return text ? std::optional(integer_in(name, *text)) : std::nullopt;
}

long long integer_in(const std::string& name, const std::string& value) {
  long long number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  require(error == std::errc{} && end == value.data() + value.size(),
          "environment variable {}=\"{}\" is not a whole number", name, value);
  return number;
}

void set_env_default(const std::string& name, const std::string& value) {
  std::lock_guard lock(mutex);
  if (::getenv(name.c_str())) return;  // NOLINT(concurrency-mt-unsafe): guarded by the mutex
  defaults().insert(name);
  if (::setenv(name.c_str(), value.c_str(), 0) != 0)  // NOLINT(concurrency-mt-unsafe): guarded by the mutex
    throw Error(ExitCode::internal, fmt::format("cannot set environment variable {}: {}", name, errno_text(errno)));
}

bool is_slurm_variable(std::string_view name) {
  constexpr std::array<std::string_view, 16> kBegins{
      "SLURM_",   "SLURMD_", "SLURMCTLD_", "SBATCH_", "SQUEUE_", "SINFO_",   "SCONTROL_", "SRUN_",
      "SCANCEL_", "SACCT_",  "SALLOC_",    "SPRIO_",  "SSHARE_", "SREPORT_", "SSTAT_",    "SDIAG_"};
  return std::ranges::any_of(kBegins, [name](std::string_view begin) { return name.starts_with(begin); });
}

std::map<std::string, std::string> slurm_variables() {
  std::lock_guard lock(mutex);
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos && is_slurm_variable(text))
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::lock_guard lock(mutex);
  std::vector<std::string> all;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string text = *entry;
    const auto name = text.substr(0, text.find('='));
    if (is_slurm_variable(text) || variables.contains(name) || defaults().contains(name)) continue;
    all.push_back(std::move(text));
  }
  for (const auto& [name, value] : variables) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

}  // namespace distdl
