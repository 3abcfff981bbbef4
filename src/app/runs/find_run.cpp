// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/job_states.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/config/job.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::app {
namespace {
/// The kind of file, also where a link leads; "not found" if there is none. Throws StorageError if that cannot be told.
std::filesystem::file_type type_of(const std::filesystem::path& file) {
  std::error_code error;
  const auto type = std::filesystem::status(file, error).type();
  require<StorageError>(type != std::filesystem::file_type::none, "cannot look at \"{}\": {}", file.string(),
                        error.message());
  return type;
}

bool is_run_folder(const std::filesystem::path& folder) {
  using enum std::filesystem::file_type;
  return type_of(folder / "journal.jsonl") != not_found || type_of(folder / "RUN") != not_found ||
         type_of(folder / "checkpoints") == directory;
}

/// A file whose owner other users do not know is named by the number of that user.
std::string owner_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return "somebody else";
  const passwd* const entry = ::getpwuid(info.st_uid);  // NOLINT(concurrency-mt-unsafe): a command's only thread asks
  return entry ? entry->pw_name : fmt::format("user {}", info.st_uid);
}

/// With a warning about what cannot be read.
bool is_readable_run(const std::filesystem::directory_entry& entry) try {
  std::error_code error;
  if (!entry.is_directory(error) || !is_run_folder(entry.path())) return false;
  require_readable(entry.path());
  return true;
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return false;
}

/// The run folders in a folder that is none itself.
std::vector<std::filesystem::path> runs_within(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> runs;
  if (folder.empty() || type_of(folder) != std::filesystem::file_type::directory || is_run_folder(folder)) return runs;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (is_readable_run(*entry)) runs.push_back(entry->path());
  require<StorageError>(!error, "cannot read the folder \"{}\": {}", folder.string(), error.message());
  std::sort(runs.begin(), runs.end());
  return runs;
}

StorageError no_run(const std::string& problem) {
  return StorageError(fmt::format("{}; name a run by its folder, its job file, its id, or the id of one of its jobs; "
                                  "\"distdl ls\" lists the runs that are known here",
                                  problem),
                      ExitCode::incomplete);
}

std::optional<std::filesystem::path> run_of_job(const std::string& job) {
  for (const auto& run : observe::known_runs())
    for (const auto& row : observe::read_journal(run.folder))
      if (job_of(row.record) == job) return run.folder;
  return std::nullopt;
}

/// The log of a job that "distdl submit" made lies in the run folder.
std::optional<std::filesystem::path> run_by_output(const std::string& job) try {
  const auto record = slurm::scheduler().job(job);
  if (!record || record->output.empty()) return std::nullopt;
  const auto folder = std::filesystem::path(record->output).parent_path();
  return is_run_folder(folder) ? std::optional(folder) : std::nullopt;
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}", error.what());
  return std::nullopt;
}

std::optional<std::filesystem::path> run_by_id(const std::string& text) {
  constexpr std::size_t kFewestDigits = 4;
  std::vector<observe::KnownRun> found;
  for (const auto& run : observe::known_runs())
    if (text.size() >= kFewestDigits && run.id.starts_with(text)) found.push_back(run);
  if (found.size() > 1)
    throw no_run(
        fmt::format("several runs have ids that begin with \"{}\": {} and {}", text, found[0].id, found[1].id));
  return found.empty() ? std::nullopt : std::optional(found[0].folder);
}

/// A pattern such as sweep/* also names files that are no jobs.
std::filesystem::path run_of_job_file(const std::filesystem::path& file) try {
  return config::load(file, {}).run_dir;
} catch (const ConfigError& error) {
  if (file.extension() == ".toml") throw;
  throw no_run(fmt::format("\"{}\" is no job file ({})", file.string(), error.what()));
}
}  // namespace

void RunArgument::add_to(Command command) {
  option_ = command.add_option(
      "RUN", text_,
      "Run: its folder, its job file, its id (from \"distdl ls\"), or the id of one of its Slurm jobs; "
      "default: the folder \"run\", else the newest run");
  option_->type_name("");
}

std::filesystem::path RunArgument::find() const {
  return option_->given() ? find_run(text_) : newest_run();
}

bool is_run(const std::filesystem::path& folder) try { return is_run_folder(folder); } catch (const StorageError&) {
  return false;
}

void require_readable(const std::filesystem::path& run_folder) {
  static constexpr std::array<std::pair<const char*, int>, 7> kRead{{{"", R_OK | X_OK},
                                                                     {"RUN", R_OK},
                                                                     {"journal.jsonl", R_OK},
                                                                     {"metrics.jsonl", R_OK},
                                                                     {"result.json", R_OK},
                                                                     {"logs", R_OK | X_OK},
                                                                     {"checkpoints", R_OK | X_OK}}};
  for (const auto& [name, rights] : kRead) {
    const auto file = *name ? run_folder / name : run_folder;
    if (::access(file.c_str(), rights) == 0 || errno != EACCES) continue;
    throw StorageError(fmt::format("cannot read \"{}\": {}; it belongs to {}, who can give the right to read the run",
                                   file.string(), errno_text(EACCES), owner_of(file)));
  }
}

namespace {
std::filesystem::path named_run(const std::string& text) {
  require<UsageError>(!text.empty(), "{}",
                      "the name of a run is empty, as from a variable that is not set; \"distdl ls\" lists the runs "
                      "that are known here");
  const auto type = type_of(text);
  if (type == std::filesystem::file_type::directory) {
    if (!is_run_folder(text)) throw no_run(fmt::format("the folder \"{}\" is of no run", text));
    return text;
  }
  if (type == std::filesystem::file_type::regular) return run_of_job_file(text);
  if (is_job_id(text))
    if (auto run = run_of_job(text)) return *run;
  if (auto run = run_by_id(text)) return *run;
  if (is_job_id(text))
    if (auto run = run_by_output(text)) return *run;
  throw no_run(fmt::format("there is no run \"{}\"", text));
}
}  // namespace

std::filesystem::path find_run(const std::string& text) {
  auto folder = named_run(text);
  require_readable(folder);
  return folder;
}

std::vector<NamedRun> find_runs(const std::vector<std::string>& texts) {
  std::vector<NamedRun> runs;
  for (const auto& text : texts) {
    const auto within = runs_within(text);
    for (const auto& folder : within) runs.push_back({folder.string(), folder});
    if (within.empty()) runs.push_back({text, find_run(text)});
  }
  return runs;
}

std::filesystem::path newest_run() {
  if (is_run_folder("run")) {
    require_readable("run");
    return "run";
  }
  std::filesystem::path newest;
  std::filesystem::file_time_type time{};
  for (const auto& run : observe::known_runs()) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(run.folder / "journal.jsonl", error);
    if (error || (!newest.empty() && written <= time)) continue;
    newest = run.folder;
    time = written;
  }
  if (newest.empty()) throw no_run("there is no folder \"run\" here, and no run is known");
  require_readable(newest);
  return newest;
}

}  // namespace distdl::app
