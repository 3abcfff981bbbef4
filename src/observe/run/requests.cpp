// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/run/requests.hpp>

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

FileRequests::FileRequests(const std::filesystem::path& run_folder, Milliseconds period)
    : folder_(resolved(run_folder)), period_(period) {}

std::optional<std::string> FileRequests::stop() {
  if (!stops_ && is_time(next_stop_, period_)) stops_ = stop_is_requested(folder_);
  return stops_ ? std::optional<std::string>("the file STOP") : std::nullopt;
}

bool FileRequests::save() {
  if (!is_time(next_save_, period_)) return false;
  if (remove_file(folder_ / kSaveName)) return true;
  if (errno != ENOENT) log(Severity::debug, "cannot take the request \"{}\": {}", kSaveName, errno_text(errno));
  return false;
}

bool stop_is_requested(const std::filesystem::path& run_folder) {
  std::error_code error;  // a link counts, wherever it leads
  return std::filesystem::exists(std::filesystem::symlink_status(run_folder / kStopName, error));
}

void request_stop(const std::filesystem::path& run_folder) {
  create_whole(resolved(run_folder) / kStopName, "");  // whatever is there with this name, is a request, too
}

void drop_requests(const std::filesystem::path& run_folder) {
  for (const char* name : {kStopName, kSaveName})
    if (!remove_file(resolved(run_folder) / name) && errno != ENOENT)
      log(Severity::warning, "cannot remove \"{}\": {}", (run_folder / name).string(), errno_text(errno));
}

}  // namespace distdl::observe
