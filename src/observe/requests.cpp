// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/observe/requests.hpp>

namespace distdl::observe {
namespace {
constexpr const char *kStopName = "STOP", *kSaveName = "SAVE";

/// Whether it is time, and if so, when next.
bool is_time(Clock::time_point& next, Milliseconds period) {
  const auto now = Clock::now();
  if (now < next) return false;
  next = now + period;
  return true;
}
}  // namespace

FileRequests::FileRequests(std::filesystem::path run_folder, Milliseconds period)
    : folder_(std::move(run_folder)), period_(period) {}

std::optional<std::string> FileRequests::stop() {
  if (!stops_ && is_time(next_stop_, period_)) stops_ = stop_is_requested(folder_);
  return stops_ ? std::optional<std::string>("the file STOP") : std::nullopt;
}

bool FileRequests::save() {
  if (!is_time(next_save_, period_)) return false;
  if (::unlink((folder_ / kSaveName).c_str()) == 0) return true;
  if (errno != ENOENT) log(Severity::debug, "cannot take the request \"{}\": {}", kSaveName, errno_text(errno));
  return false;
}

bool stop_is_requested(const std::filesystem::path& run_folder) {
  return ::access((run_folder / kStopName).c_str(), F_OK) == 0;
}

void request_stop(const std::filesystem::path& run_folder) {
  const auto file = run_folder / kStopName;
  const FileDescriptor made(::open(file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644));
  require<StorageError>(static_cast<bool>(made), "cannot make \"{}\": {}", file.string(), errno_text(errno));
}

void drop_requests(const std::filesystem::path& run_folder) {
  for (const char* name : {kStopName, kSaveName})
    if (::unlink((run_folder / name).c_str()) != 0 && errno != ENOENT)
      log(Severity::warning, "cannot remove \"{}\": {}", (run_folder / name).string(), errno_text(errno));
}

}  // namespace distdl::observe
