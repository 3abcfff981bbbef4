// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
constexpr const char* kHalf = ".half";                             // being written
constexpr std::int64_t kForgotten = std::int64_t{14} * 24 * 3600;  // seconds; a requeued job may wait for days

/// The number at the start of `text`, which is cut off together with the '-' behind it.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data() + text.size() || *end != '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return true;
}
/// Nothing unless it is a regular file of this user.
std::optional<struct stat> own_file(const Path& path) {
  struct stat status {};
  const bool mine = ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
  return mine ? std::optional(status) : std::nullopt;
}
}  // namespace

std::optional<SnapshotLabel> parse_disk_snapshot_name(std::string_view name, const std::string& run) {
  const std::string prefix = buffer_prefix(run);
  if (!name.starts_with(prefix) || name.ends_with(kHalf)) return std::nullopt;
  name.remove_prefix(prefix.size());
  SnapshotLabel label{run, 0, 1, Step(0), 0, {}};
  const bool is_whole = take(name, label.rank) && take(name, label.world) && take(name, label.start.number) &&
                        take(name, label.start.identity) && take(name, label.step.value) && take(name, label.sequence);
  if (!is_whole || label.rank < 0 || label.rank >= label.world || label.step < Step(0)) return std::nullopt;
  return label;
}

std::string disk_snapshot_name(const SnapshotLabel& label, const std::string& run) {
  return fmt::format("{}{}-{}-{}-{}-{}-{}-", buffer_prefix(run), label.rank, label.world, label.start.number,
                     label.start.identity, label.step, label.sequence);
}

DiskSnapshots::DiskSnapshots(FileSystem& files, const Path& folder, const std::string& run)
    : files_(files), folder_(resolved(folder)), run_(run), prefix_(buffer_prefix(run)) {
  make_folders(files_, folder_);
}

std::string DiskSnapshots::write(std::span<const std::byte> buffer) {
  const SnapshotLabel label = open_snapshot(buffer).label;
  std::string name = disk_snapshot_name(label, run_) + random_hex(8);
  const Path half = folder_ / (name + kHalf);
  try {
    OpenFile file(files_, half, OpenFile::Mode::create_private);
    file.reserve(0, buffer.size());
    file.write_at(buffer, 0);
    file.sync();
    file.close();
    if (files_.rename(half.c_str(), (folder_ / name).c_str(), 0) != 0) throw FileError("rename", half, errno);
    sync_folder(files_, folder_);
  } catch (const StorageError&) {
    files_.unlink(half.c_str());
    throw;
  }
  return name;
}

std::vector<DiskSnapshots::Entry> DiskSnapshots::list(const Path& folder, const std::string& run) {
  std::vector<Entry> entries;
  if (!is_there(folder)) return entries;
  const std::string prefix = buffer_prefix(run);
  for (const Path& path : entries_with_prefix(folder, prefix)) {
    const auto status = own_file(path);
    const auto label = parse_disk_snapshot_name(path.filename().native(), run);
    if (label && status && (status->st_mode & 0077) == 0)
      entries.push_back({path.filename().string(), *label, static_cast<std::size_t>(status->st_size)});
  }
  return entries;
}

SnapshotMemory DiskSnapshots::load(const std::string& name) const {
  OpenFile file(files_, folder_ / name, OpenFile::Mode::read);
  require<StorageError>(file.is_private(),
                        "\"{}\" is accessible to other users: expected a file of user {} with mode 0600",
                        file.path().string(), ::geteuid());
  if (file.size() == 0) throw StorageError(fmt::format("\"{}\" is empty", file.path().string()), ExitCode::corrupt);
  SnapshotMemory memory = SnapshotMemory::create_private(file.size());
  file.read_at(memory.writable(), 0);
  return memory;
}

void DiskSnapshots::remove(const std::string& name) noexcept {
  if (files_.unlink((folder_ / name).c_str()) != 0)
    log(Severity::warning, "cannot delete the old snapshot \"{}\": {}", name, errno_text(errno));
}

void DiskSnapshots::clear_leftovers() noexcept try {
  for (const Path& path : entries_with_prefix(folder_, buffer_prefix())) {
    const auto status = own_file(path);
    const std::string name = path.filename().string();
    const bool is_ours = name.starts_with(prefix_);
    if (status && (is_ours ? path.extension() == kHalf : whole_seconds_since_1970() - status->st_mtime > kForgotten))
      remove(name);
  }
} catch (const std::exception& error) {
  log(Severity::warning, "old files in \"{}\" were not removed: {}", folder_.string(), error.what());
}

}  // namespace distdl::checkpoint
