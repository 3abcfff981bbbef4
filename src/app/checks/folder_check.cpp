// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <distdl/app/checks/folder_check.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl::app {
namespace {
/// Magic numbers as statfs(2) reports them.
const std::map<long, std::string> kFileSystems{{0xEF53, "ext4"},      {0x58465342, "xfs"},    {0x9123683E, "btrfs"},
                                               {0x01021994, "tmpfs"}, {0x6969, "nfs"},        {0x0BD00BD0, "lustre"},
                                               {0x47504653, "gpfs"},  {0x19830326, "beegfs"}, {0x794C7630, "overlay"},
                                               {0x65735546, "fuse"},  {0x00C36400, "ceph"}};

std::string name_of(long magic) {
  auto found = kFileSystems.find(magic);
  return found == kFileSystems.end() ? fmt::format("file system {:#x}", magic) : found->second;
}

/// Writes 4 MiB durably; seconds, or nothing and errno.
double write_durably(const std::filesystem::path& folder, std::string& error) {
  auto final = folder / fmt::format(".distdl-doctor.{}", ::getpid()), staged = final;
  staged += ".new";
  Stopwatch watch;
  ::unlink(staged.c_str());  // of a killed process that had our number
  {
    FileDescriptor file(::open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    std::vector<char> block(4 << 20, 'x');
    if (file) errno = ENOSPC;  // of a write that takes a part only, which sets none
    if (!file || ::write(file.get(), block.data(), block.size()) != static_cast<ssize_t>(block.size()) ||
        ::fsync(file.get()) != 0 || ::rename(staged.c_str(), final.c_str()) != 0)
      error = errno_text(errno);
  }
  ::unlink(staged.c_str());
  ::unlink(final.c_str());
  return watch.seconds();
}
}  // namespace

Finding check_folder(const std::filesystem::path& folder) {
  const std::string what = "checkpoints";
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0)
    return {what, Health::fail, fmt::format("\"{}\": {}", folder.string(), errno_text(errno)),
            "create the folder, or choose another with --dir"};
  std::string error;
  double seconds = write_durably(folder, error);
  const double free_gib = static_cast<double>(system.f_bavail) * static_cast<double>(system.f_bsize) / (1 << 30);
  auto text = fmt::format("\"{}\" on {}, {:.1f} GiB free", folder.string(), name_of(system.f_type), free_gib);
  if (!error.empty())
    return {what, Health::fail, text + ": " + error, "make it writable, or choose another with --dir"};
  text += fmt::format(", 4 MiB durable in {:.0f} ms", seconds * 1e3);
  if (system.f_type == 0x01021994)
    return {what, Health::warn, text,
            "this is the node's memory: checkpoints are lost with the node; use the parallel file system"};
  if (free_gib < 1) return {what, Health::warn, text, "there is little free space"};
  return {what, Health::ok, text, ""};
}

}  // namespace distdl::app
