// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/observe/kept_job.hpp>

namespace distdl::observe {
namespace {
constexpr const char* kJobName = "job.toml";
constexpr std::uint64_t kMostJobBytes = 1 << 20;
}  // namespace

void keep_job(const std::filesystem::path& run_folder, const std::string& text) try {
  if (kept_job(run_folder) != text)
    checkpoint::replace_text(checkpoint::real_file_system(), run_folder / kJobName, text);
} catch (const StorageError& error) {
  log(Severity::warning, "{}; the run folder does not tell its job", error.what());
}

std::optional<std::string> kept_job(const std::filesystem::path& run_folder) {
  return checkpoint::read_text(checkpoint::real_file_system(), run_folder / kJobName, kMostJobBytes);
}

}  // namespace distdl::observe
