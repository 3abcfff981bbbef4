// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/files/private_folder.hpp>
#include <distdl/train/staging/node_copies.hpp>

namespace distdl::train {
namespace {
constexpr const char* kSuffix = ".h5";
constexpr std::int64_t kInUse = 3600;             // seconds for which a copy counts as used
constexpr std::uint64_t kLeftFree = 64ULL << 20;  // bytes, for others

/// Nothing unless it is a regular file.
std::optional<struct stat> file_at(const Path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? std::optional(status) : std::nullopt;
}

struct OldCopy {
  std::int64_t used = 0;
  Path path;
};

/// Also what killed jobs have left half written, of which the name begins with a point.
std::vector<OldCopy> old_copies(const Path& folder) {
  std::vector<OldCopy> all;
  for (const std::string& name : names_in(folder)) {
    const auto status = file_at(folder / name);
    if (status && whole_seconds_since_1970() - status->st_mtime > kInUse)
      all.push_back({status->st_mtime, folder / name});
  }
  std::ranges::sort(all, {}, &OldCopy::used);
  return all;
}
}  // namespace

std::string StagedSet::name() const {
  return fmt::format("{}-{}{}", digest, bytes, kSuffix);
}

NodeCopies::NodeCopies(const Path& folder, const std::string& node) {
  const Path given = resolved(folder);
  std::error_code ignored;
  require<StorageError>(std::filesystem::is_directory(given, ignored), "there is no folder \"{}\"", folder.string());
  folder_ = given / fmt::format("distdl-data-{}", ::geteuid());
  PrivateFolder::make(folder_);
  folder_ /= node;
  PrivateFolder::make(folder_);
}

Path NodeCopies::place_of(const StagedSet& set) const {
  return folder_ / set.name();
}

bool NodeCopies::has(const StagedSet& set) const {
  const Path place = place_of(set);
  if (!is_there(place)) return false;
  try {
    const auto status = file_at(place);
    if (status && static_cast<std::uint64_t>(status->st_size) == set.bytes &&
        data::digest_of_file(place) == set.digest) {
      const FileDescriptor file = open_regular(place);
      if (::futimens(file.get(), nullptr) != 0)
        log(Severity::warning, "cannot mark \"{}\" as used: {}", place.string(), errno_text(errno));
      return true;
    }
  } catch (const StorageError& error) {
    log(Severity::warning, "a copy of \"{}\" is made again: {}", set.file.string(), error.what());
  }
  if (!remove_file(place)) throw FileError("replace the damaged copy", place, errno);
  return false;
}

void NodeCopies::make_room_for(const StagedSet& set) const {
  const auto lacks = [&] {
    const auto free = free_bytes(real_file_system(), folder_);
    return free && *free < set.bytes + kLeftFree;
  };
  for (const OldCopy& old : old_copies(folder_)) {
    if (!lacks()) return;
    log(Severity::info, "\"{}\" is deleted, to make room for a copy of \"{}\"", old.path.string(), set.file.string());
    if (!remove_file(old.path) && errno != ENOENT) throw FileError("delete", old.path, errno);
  }
  require<StorageError>(!lacks(), "\"{}\" has {} MiB free, but a copy of \"{}\" takes {} MiB", folder_.string(),
                        free_bytes(real_file_system(), folder_).value_or(0) >> 20, set.file.string(), set.bytes >> 20);
}

std::unique_ptr<WholeFile> NodeCopies::begin(const StagedSet& set) const {
  return std::make_unique<WholeFile>(real_file_system(), place_of(set), Overwrite::replace);
}

}  // namespace distdl::train
