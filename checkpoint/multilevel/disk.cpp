// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {
namespace {

void check_folder(const Options& options) {
  require(options.disk_every == 0 || !options.disk_folder.empty(),
          "checkpoint.disk_every is {}, but checkpoint.disk_folder names no folder of the nodes' own disks",
          options.disk_every);
}

}  // namespace

extern const Level kDisk;
const Level kDisk{
    .name = "disk", .key = "checkpoint.disk_every", .every = &Options::disk_every, .check = &check_folder};

}  // namespace distdl::checkpoint
