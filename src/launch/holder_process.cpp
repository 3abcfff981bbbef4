// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/process_age.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/launch/holder_process.hpp>

namespace distdl::launch {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostLockBytes = 4096;              ///< bytes of the file
constexpr long kPidfdSendSignal = 424, kPidfdOpen = 434;  ///< older headers lack them
constexpr const char* kLock = "LOCK";

struct stat status_of(const fs::path& path) {
  struct stat status {};
  const bool is_known = ::stat(path.c_str(), &status) == 0;
  require<StorageError>(is_known, "cannot look at \"{}\": {}", path.string(), errno_text(errno));
  return status;
}

bool is_same_file(const struct stat& one, const fs::path& path) {
  struct stat other {};
  return ::stat(path.c_str(), &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// The user of a process. Nothing if it is gone.
std::optional<uid_t> user_of(const fs::path& process) {
  std::ifstream lines(process / "status");
  for (std::string word; lines >> word;)
    if (uid_t user = 0; word == "Uid:" && lines >> user) return user;
  return std::nullopt;
}

/// Whatever file the program came from: another installation may have started the run.
bool runs_distdl(const fs::path& process) {
  std::error_code unknown;
  std::string program = fs::read_symlink(process / "exe", unknown).filename().string();
  constexpr std::string_view kReplaced = " (deleted)";
  if (program.ends_with(kReplaced)) program.resize(program.size() - kReplaced.size());
  return program == "distdl";
}

/// A "distdl run" keeps a descriptor of its run folder (FolderLock).
bool has_open(const fs::path& process, const struct stat& folder) {
  std::error_code error;
  for (fs::directory_iterator file(process / "fd", error), end; !error && file != end; file.increment(error))
    if (is_same_file(folder, file->path())) return true;
  return false;
}

/// Why the process is not the holder, or may not be signalled; empty: neither.
std::string doubt_about(const TrustedHolder& trusted, const struct stat& folder) {
  const auto& [holder, user] = trusted;
  const fs::path process = fs::path("/proc") / std::to_string(holder.pid);
  const auto own = user_of(process);
  if (holder.pid < 1 || !own || start_of_process(holder.pid) != holder.started) return "is not the one that wrote it";
  if (*own != user) return fmt::format("belongs to user {}, but the file to user {}", *own, user);
  if (user != ::geteuid() && ::geteuid() != 0)
    return fmt::format(
        "belongs to user {}, and only they may end it so (who may write to the run folder can use --after-save)", user);
  if (!runs_distdl(process)) return "does not run distdl";
  if (!has_open(process, folder)) return "does not work on this run folder";
  return "";
}
}  // namespace

bool TrustedHolder::is_here() const {
  const auto self = Holder::self();
  return holder.host == self.host && holder.boot == self.boot && holder.pid_space == self.pid_space;
}

std::optional<TrustedHolder> trusted_holder(const fs::path& run_folder) try {
  const fs::path file = run_folder / kLock;
  const auto folder = status_of(run_folder);
  const FileDescriptor lock = open_regular(file);
  struct stat status {};
  const bool is_known = ::fstat(lock.get(), &status) == 0;
  require<StorageError>(is_known, "cannot look at \"{}\": {}", file.string(), errno_text(errno));
  require<StorageError>(
      status.st_uid == folder.st_uid || status.st_uid == ::geteuid(),
      "\"{}\" belongs to user {}, but the run folder to user {}, so it is not trusted: remove it if no "
      "\"distdl run\" uses the folder",
      file.string(), status.st_uid, folder.st_uid);
  const auto holder = holder_from(read_regular(lock, file, kMostLockBytes));
  return holder ? std::optional(TrustedHolder{*holder, status.st_uid}) : std::nullopt;
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return std::nullopt;
  throw;
}

void signal_holder(const fs::path& run_folder, const TrustedHolder& trusted, int number) {
  const auto process = static_cast<pid_t>(trusted.holder.pid);
  // The descriptor is opened before the process is judged, and stands for that process alone.
  const FileDescriptor target(static_cast<int>(::syscall(kPidfdOpen, process, 0)));
  const int failed = target ? 0 : errno;
  std::string doubt = doubt_about(trusted, status_of(run_folder));
  const bool has_no_call = failed == ENOSYS || failed == EPERM;  // an old kernel, or a container that forbids it
  if (doubt.empty() && failed != 0 && !has_no_call) doubt = fmt::format("cannot be found: {}", errno_text(failed));
  if (doubt.empty()) {
    const long sent = target ? ::syscall(kPidfdSendSignal, target.get(), number, nullptr, 0) : ::kill(process, number);
    if (sent != 0) doubt = fmt::format("cannot be signalled: {}", errno_text(errno));
  }
  require<StorageError>(doubt.empty(), "process {}, which \"{}\" names, {}: it got no signal", process,
                        (run_folder / kLock).string(), doubt);
}

}  // namespace distdl::launch
