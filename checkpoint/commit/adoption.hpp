// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/ids.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// Puts a copy of the checkpoint of this step in the root `from` in the place of that in `root`, which is deleted; its
/// tags are then those of the copy. Snapshots of earlier starts of the run in `root` no longer count, and their
/// processes, if one still lives, are superseded. After a crash there is the old checkpoint, the copy, or none of this
/// step, and the call can be repeated. Throws StorageError; incomplete if `from` has none.
void adopt_checkpoint(FileSystem& files, const Path& from, const Path& root, Step step);

}  // namespace distdl::checkpoint
