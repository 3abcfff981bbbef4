// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_jobs.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/launch/holder_process.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/submit/write_script.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;

bool is_same_folder(const fs::path& one, const fs::path& other) {
  std::error_code unknown;
  return fs::equivalent(one, other, unknown);
}

/// Whether only its owner can have written the file.
bool is_private(const fs::path& file, std::optional<std::int64_t> user) {
  constexpr mode_t kOthersWrite = 0022;
  struct stat status {};
  return ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & kOthersWrite) == 0 &&
         (!user || status.st_uid == *user);
}

bool holds_run(const fs::path& run_folder, const slurm::JobRecord& record) {
  const auto lock = launch::trusted_holder(run_folder);
  return lock && lock->holder.job == record.id;
}

std::string doubt_about_user(const fs::path& run_folder, std::optional<std::int64_t> user) {
  struct stat status {};
  const bool is_known = ::stat(run_folder.c_str(), &status) == 0;
  if (!user || *user == ::geteuid() || (is_known && *user == status.st_uid)) return "";
  return fmt::format("it belongs to user {}", *user);
}
}  // namespace

std::string doubt_about_job(const fs::path& run_folder, const slurm::JobRecord& record,
                            const std::optional<std::string>& script) {
  if (auto doubt = doubt_about_user(run_folder, record.user_id); !doubt.empty()) return doubt;
  if (const auto named = script ? submit::run_folder_in(*script) : std::nullopt)
    return is_same_folder(*named, run_folder) ? "" : fmt::format("its script is of the run \"{}\"", named->string());
  const fs::path folder = fs::path(record.output).parent_path();
  if (is_same_folder(folder, run_folder)) return "";
  // A folder of checkpoints alone may be that of a project. A job of salloc has no output.
  std::error_code unknown;
  if (!folder.empty() && is_run(folder) && fs::exists(folder / "journal.jsonl", unknown))
    return fmt::format("its output goes to the run \"{}\"", folder.string());
  if (script && script->find("distdl") == std::string::npos) return "its script does not run distdl";
  // A script of the user's own does not tell the run: then it counts that the user's own process has named the job.
  if (!is_private(run_folder / "journal.jsonl", record.user_id)) return "others may have written the journal";
  if (!script && !holds_run(run_folder, record)) return "it has no batch script, and does not hold the run folder";
  return "";
}

void require_job_of_run(const fs::path& run_folder, const std::string& job) {
  const auto record = slurm::scheduler().job(job, slurm::Freshness::now);
  const auto doubt = record ? doubt_about_job(run_folder, *record, slurm::scheduler().batch_script(job))
                            : std::string("Slurm does not know it");
  require<StorageError>(
      doubt.empty(),
      "job {}, which the journal of \"{}\" names, is none of this run: {}; it is left alone (\"scancel "
      "{}\" ends it)",
      job, run_folder.string(), doubt, job);
}

}  // namespace distdl::app
