// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/commit.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;  // manifest, HDF5's own structures

// The step exists with other contents, or is damaged: the newer checkpoint replaces it.
constexpr const char* kReplaced = "the step was saved again with other contents";

double mebibytes(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}
}  // namespace

Commit::Commit(FileSystem& files, Path root, Owner owner, Step step)
    : files_(files), root_(std::move(root)), owner_(std::move(owner)), step_(step) {}

Commit::~Commit() {
  if (!stage_.empty()) remove_tree(files_, stage_);
}

bool has_room(FileSystem& files, const Path& root, std::uint64_t bytes) {
  auto available = free_bytes(files, root);
  return !available || *available >= bytes + kSlack;
}

void check_room(FileSystem& files, const Path& root, std::uint64_t bytes) {
  auto available = free_bytes(files, root);
  require<StorageError>(
      !available || *available >= bytes + kSlack,
      "\"{}\" has {:.1f} MiB free, but a checkpoint needs {:.1f} MiB: free some space or save elsewhere", root.string(),
      mebibytes(available.value_or(0)), mebibytes(bytes + kSlack));
}

std::uint64_t expected_bytes(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed) try {
  const std::uint64_t least = compressed ? 0 : bytes;
  const auto available = free_bytes(files, root);
  if (!available || *available / 2 > bytes + kSlack || !is_there(root)) return least;
  const auto folders = step_folders(root);
  if (folders.empty()) return least;
  const Summary newest = summary_of(load_manifest(files, folders.rbegin()->second), folders.rbegin()->second);
  const bool alike = newest.plain_bytes <= bytes && newest.plain_bytes >= bytes / 2;
  return alike ? std::max(least, newest.bytes) : least;
} catch (const StorageError&) {  // the newest cannot be read
  return compressed ? 0 : bytes;
}

void check_room_of_run(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed, const Rule& rule) {
  const auto available = free_bytes(files, root);
  if (!available) return;
  const std::uint64_t each = expected_bytes(files, root, bytes, compressed) + kSlack;
  // The bytes of checkpoints are not read here, but only when one has to be deleted.
  const auto decisions = decide_retention(files, root, {1, rule.keep_every}, std::nullopt,
                                          [](Step, const Path& folder) { return is_there(folder / kManifestName); });
  const auto may_go = static_cast<std::uint64_t>(std::count_if(
      decisions.begin(), decisions.end(), [](const RetentionDecision& decision) { return !decision.stays; }));
  const std::uint64_t missing = decisions.empty() ? 2 : 1;  // one that stays and one that is being written
  require<StorageError>(
      *available / each + may_go >= missing,
      "\"{}\" has {:.1f} MiB free, but the run needs space for {} checkpoint{} of {:.1f} MiB, because "
      "one must exist while the next one is written: free some space or save elsewhere",
      root.string(), mebibytes(*available), missing, missing == 1 ? "" : "s", mebibytes(each));
  const auto fitting = *available / each + decisions.size();
  if (fitting <= static_cast<std::uint64_t>(rule.keep))
    log(Severity::warning,
        "\"{}\" has space for {} checkpoints, but checkpoint.keep = {} and the one being written need {}: older "
        "ones will be deleted sooner",
        root.string(), fitting, rule.keep, rule.keep + 1);
}

const Path& Commit::open_stage(std::uint64_t bytes) {
  check_room(files_, root_, bytes);
  Path stage = root_ / stage_name(step_);
  make_folder(files_, stage);
  stage_ = std::move(stage);
  sync_folder(files_, root_);
  return stage_;
}

void Commit::check_files(const Manifest& manifest) {
  for (const StoredFile& file : manifest.files) {
    OpenFile seen(files_, stage_ / file.name, OpenFile::Mode::read);
    require<StorageError>(seen.size() == file.bytes, "\"{}\" was written with {} bytes, but rank 0 sees {}",
                          seen.path().string(), file.bytes, seen.size());
  }
}

/// Gives the stage its final name. Returns what had the name before and now lies elsewhere below the root, if anything
/// did.
Path Commit::rename_stage() {
  Path target = root_ / step_folder_name(step_), old;
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(target, ignored))) {
    if (swap_folders(files_, stage_, target)) return std::exchange(stage_, Path());
    // Two renames then, with nothing between them: a crash in that instant falls back to the step before.
    old = place_in_quarantine(files_, root_, step_folder_name(step_));
    move_folder(files_, target, old);
  }
  try {
    move_folder(files_, stage_, target);
  } catch (const StorageError&) {
    if (!old.empty()) move_folder(files_, old, target);
    throw;
  }
  stage_.clear();
  return old;
}

void Commit::publish(const Manifest& manifest) {
  check_files(manifest);
  create_text(files_, stage_ / kManifestName, to_text(manifest));
  sync_folder(files_, stage_);
  // A run that takes the folder after this check first moves the stage away (Store::take), so that the rename below
  // fails: two runs never both commit.
  check_owner(files_, root_, owner_);
  Path old = rename_stage();
  sync_folder(files_, root_);  // the commit point
  if (old.empty()) return;
  try {
    std::string name = step_folder_name(step_);
    if (old.parent_path() == root_)
      quarantine(files_, root_, old, name, kReplaced);
    else
      explain_quarantine(files_, root_, old, name, kReplaced);
  } catch (const StorageError& error) {
    log(Severity::warning, "the replaced checkpoint remains in \"{}\": {}", old.string(), error.what());
  }
}

void write_latest(FileSystem& files, const Path& root, Step step) noexcept try {
  replace_text(files, root / kLatestName, step_folder_name(step) + "\n");
} catch (const std::exception& error) {
  log(Severity::warning, "the hint {} was not written: {}", kLatestName, error.what());
}

}  // namespace distdl::checkpoint
