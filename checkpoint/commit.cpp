// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/ownership.hpp>
#include <distdl/checkpoint/retention.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;  // manifest, HDF5's own structures

// The run came to a step again that exists with other contents, or damaged: the newer one wins.
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
  require<StorageError>(!available || *available >= bytes + kSlack,
                        "\"{}\" has {:.1f} MiB free, a checkpoint needs {:.1f} MiB: make room or save elsewhere",
                        root.string(), mebibytes(available.value_or(0)), mebibytes(bytes + kSlack));
}

const Path& Commit::open_stage(std::uint64_t bytes) {
  check_room(files_, root_, bytes);
  Path stage = root_ / fmt::format("{}{}.{}", kStagePrefix, step_.value, random_hex(8));
  make_folder(files_, stage);
  stage_ = std::move(stage);
  sync_folder(files_, root_);
  return stage_;
}

void Commit::check_files(const Manifest& manifest) {
  for (const StoredFile& file : manifest.files) {
    OpenFile seen(files_, stage_ / file.name, OpenFile::Mode::read);
    require<StorageError>(seen.size() == file.bytes, "\"{}\" was written with {} bytes, rank 0 sees {}",
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
    log(Severity::warning, "the replaced checkpoint stays in \"{}\": {}", old.string(), error.what());
  }
}

void write_latest(FileSystem& files, const Path& root, Step step) noexcept try {
  replace_text(files, root / kLatestName, step_folder_name(step) + "\n");
} catch (const std::exception& error) {
  log(Severity::warning, "the hint {} was not written: {}", kLatestName, error.what());
}

}  // namespace distdl::checkpoint
