// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/set_watch.hpp>

namespace distdl::data {
namespace {
std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return std::int64_t{time.tv_sec} * kPerSecond + time.tv_nsec;
}
}  // namespace

SetWatch::SetWatch(std::filesystem::path file) : file_(std::move(file)), seen_(look()) {}

std::optional<SetWatch::Identity> SetWatch::look() const {
  struct stat status {};
  if (::stat(file_.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino, status.st_size, nanoseconds(status.st_mtim),
                  nanoseconds(status.st_ctim)};
}

void SetWatch::require_unchanged() {
  const auto now = look();
  if (now == seen_) return;
  if (!now) {
    log(Severity::warning,
        "data set \"{}\" was removed: the run continues with the file that it has open, but a restart needs it",
        file_.string());
  } else {
    std::string digest;
    try {
      digest = digest_of_file(file_);
    } catch (const StorageError& error) {
      throw StorageError(
          fmt::format("data set \"{}\" was changed while the run reads it: {}", file_.string(), error.what()),
          error.exit_code());
    }
    if (digest != digest_)
      throw StorageError(
          fmt::format(
              "data set \"{}\" was changed while the run reads it: its digest was {} and is now {}; restore the "
              "former file and run the same command again, or choose another run.dir for the new one",
              file_.string(), digest_, digest),
          ExitCode::incompatible);
    log(Severity::info, "data set \"{}\" was touched or replaced while the run reads it; its digest is the same",
        file_.string());
  }
  seen_ = now;
}

}  // namespace distdl::data
