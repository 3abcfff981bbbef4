// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>

#include <distdl/base/log.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/retention.hpp>
#include <distdl/checkpoint/verify.hpp>

namespace distdl::checkpoint {
namespace {

bool is_good(FileSystem& files, const Path& folder, Step step, std::set<Step>& good) {
  if (good.contains(step)) {
    // Its bytes were checked before; that it is still whole costs one look at the manifest.
    std::error_code ignored;
    return std::filesystem::exists(folder / kManifestName, ignored);
  }
  if (!verify_folder(files, folder).findings.empty()) return false;
  good.insert(step);
  return true;
}

}  // namespace

void quarantine(FileSystem& files, const Path& root, const Path& folder, const std::string& label,
                const std::string& reason) {
  Path room = root / kQuarantineName;
  make_folders(files, room);
  Path place = room / fmt::format("{}.{}", label, random_hex(4));
  move_folder(files, folder, place);
  log(Severity::warning, "moved {} to \"{}\": {}", label, place.string(), reason);
  try {
    create_text(files, place / "REASON", reason + "\n");
    sync_folder(files, room);
    sync_folder(files, root);
  } catch (const StorageError& error) {
    log(Severity::warning, "the reason was not written: {}", error.what());
  }
}

bool discard(FileSystem& files, const Path& root, const Path& folder) {
  Path trash = root / (kTrashPrefix + random_hex(8));
  if (files.rename(folder.c_str(), trash.c_str(), 0) != 0) {
    if (errno == ENOENT) return true;
    throw FileError("move away", folder, errno);
  }
  sync_folder(files, root);  // else a power loss could bring back the old name with half of the files gone
  return remove_tree(files, trash);
}

void collect_garbage(FileSystem& files, const Path& root, std::int64_t keep, Step just_saved,
                     std::set<Step>& good) noexcept try {
  auto folders = step_folders(root);
  std::int64_t kept = 0;
  for (auto newest = folders.rbegin(); newest != folders.rend(); ++newest) {
    const auto& [step, folder] = *newest;
    if (kept < keep) {
      kept += is_good(files, folder, step, good);
    } else if (step != just_saved) {
      good.erase(step);
      if (!discard(files, root, folder)) log(Severity::warning, "part of old checkpoint step {} is left", step);
    }
  }
} catch (const std::exception& error) {
  log(Severity::warning, "old checkpoints stay for now: {}", error.what());
}

void clear_leftovers(FileSystem& files, const Path& root) {
  for (const Path& stage : entries_with_prefix(root, kStagePrefix)) discard(files, root, stage);
  for (const Path& trash : entries_with_prefix(root, kTrashPrefix)) remove_tree(files, trash);
  // Half-written files of a run that is taking the folder right now must stay, so only old ones go.
  auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const char* name : {kOwnerName, kLatestName})
    for (const Path& half : entries_with_prefix(root, fmt::format(".{}.", name))) {
      std::error_code ignored;
      if (std::filesystem::last_write_time(half, ignored) < old) files.unlink(half.c_str());
    }
}

}  // namespace distdl::checkpoint
