// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <distdl/base/env.hpp>
#include <distdl/submit/run_folder_facts.hpp>

namespace distdl::submit {
namespace {
struct FileSystemEntry {
  long magic;
  const char* name;
  FolderKind kind;
};

/// Numbers of linux/magic.h, and of file systems that are not in the kernel.
constexpr FileSystemEntry kFileSystems[] = {
    {0xEF53, "ext4", FolderKind::disk},         {0x58465342, "xfs", FolderKind::disk},
    {0x9123683E, "btrfs", FolderKind::disk},    {0x2FC12FC1, "zfs", FolderKind::disk},
    {0x794C7630, "overlay", FolderKind::disk},  {0x01021994, "tmpfs", FolderKind::memory},
    {0x858458F6, "ramfs", FolderKind::memory},  {0x6969, "nfs", FolderKind::shared},
    {0x0BD00BD0, "lustre", FolderKind::shared}, {0x47504653, "gpfs", FolderKind::shared},
    {0x19830326, "beegfs", FolderKind::shared}, {0x00C36400, "ceph", FolderKind::shared},
    {0xFF534D42, "cifs", FolderKind::shared},   {0xFE534D42, "smb2", FolderKind::shared},
    {0xAAD7AAEA, "panfs", FolderKind::shared},  {0x7461636F, "ocfs2", FolderKind::shared},
    {0x01161970, "gfs2", FolderKind::shared},   {0x65735546, "fuse", FolderKind::unknown},
};

/// Folders that each node has of its own on most machines.
bool is_temporary(const std::filesystem::path& folder) {
  std::array<std::string, 5> roots{"/tmp", "/dev/shm", "/run", "/local", ""};
  const auto own = env("TMPDIR");
  if (own) roots.back() = *own;
  const std::string text = folder.lexically_normal().string();
  return std::any_of(roots.begin(), roots.end(), [&](std::string root) {
    while (root.ends_with('/')) root.pop_back();
    return !root.empty() && (text == root || text.starts_with(root + "/"));
  });
}

/// Whether this machine is the file server, by /etc/exports: one export a line, its path first.
bool is_exported(const std::filesystem::path& folder) {
  std::ifstream exports("/etc/exports");
  const std::string text = folder.lexically_normal().string() + "/";
  for (std::string line; std::getline(exports, line);) {
    std::string root = line.substr(0, line.find_first_of(" \t"));
    while (root.size() > 1 && root.ends_with('/')) root.pop_back();
    if (root.starts_with('/') && text.starts_with(root == "/" ? root : root + "/")) return true;
  }
  return false;
}
}  // namespace

FolderKind kind_of_file_system(long magic, std::string& name) {
  for (const FileSystemEntry& entry : kFileSystems)
    if (entry.magic == magic) {
      name = entry.name;
      return entry.kind;
    }
  name = fmt::format("file system {:#x}", magic);
  return FolderKind::unknown;
}

RunFolderFacts look_at_run_folder(const std::filesystem::path& folder) {
  std::error_code error;
  RunFolderFacts facts{std::filesystem::absolute(folder, error)};
  facts.is_temporary = is_temporary(facts.folder);
  auto there = facts.folder;
  while (!std::filesystem::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  struct statfs system {};
  if (::statfs(there.c_str(), &system) == 0) {
    facts.kind = kind_of_file_system(system.f_type, facts.file_system);
    facts.free_bytes = static_cast<std::uint64_t>(system.f_bavail) * static_cast<std::uint64_t>(system.f_bsize);
  }
  if (facts.kind == FolderKind::disk && is_exported(facts.folder)) facts.kind = FolderKind::shared;
  struct stat info {};
  const bool is_made = there == facts.folder && ::stat(there.c_str(), &info) == 0;
  facts.is_world_readable = is_made && (info.st_mode & S_IROTH) != 0;
  for (const auto& entry : std::filesystem::directory_iterator(facts.folder / "checkpoints", error))
    facts.checkpoints_are_there |= entry.path().filename().string().starts_with("step-");
  return facts;
}

}  // namespace distdl::submit
