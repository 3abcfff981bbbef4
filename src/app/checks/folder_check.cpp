// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <sys/vfs.h>
#include <unistd.h>

#include <distdl/app/checks/folder_check.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>

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

/// Writes 4 MiB durably. Returns the seconds.
double write_durably(const std::filesystem::path& folder, std::string& error) {
  const Stopwatch watch;
  const std::string block(4 << 20, 'x');
  const auto file = resolved(folder) / fmt::format(".distdl-doctor.{}", random_hex(8));
  try {
    replace_text(real_file_system(), file, block);
  } catch (const FileError& failure) {
    error = errno_text(failure.number());
  }
  remove_file(file);
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
