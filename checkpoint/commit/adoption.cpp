// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include <distdl/base/random.hpp>
#include <distdl/checkpoint/commit/adoption.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
void copy_synced(FileSystem& files, const Path& from, const Path& to) {
  OpenFile source(files, from, OpenFile::Mode::read), copy(files, to, OpenFile::Mode::create);
  std::vector<std::byte> piece(std::min<std::uint64_t>(source.size(), 4 << 20));
  for (std::uint64_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), source.size() - at));
    source.read_at(piece, at);
    copy.write_at(piece, at);
  }
  copy.sync();
  copy.close();
}

/// Makes the adoption the owner of `root`, as a start would be. A process of an earlier start that still lives commits
/// nothing there any more, and no later start continues from a snapshot of the model that is given up.
void take(FileSystem& files, const Path& from, const Path& root) {
  Owner mine = owner_of(files, root).value_or(Owner{});
  mine.start = std::max(mine.start, owner_of(files, from).value_or(Owner{}).start) + 1;
  mine.snapshots_since = mine.start;
  mine.nonce = random_hex(16);
  mine.generation = 0;
  mine.launch.clear();
  write_owner(files, root, mine);
  clear_leftovers(files, root);
}
}  // namespace

void adopt_checkpoint(FileSystem& files, const Path& from, const Path& root, Step step) {
  const Path source = from / step_folder_name(step), own = root / step_folder_name(step);
  if (!is_there(source / kManifestName))
    throw StorageError(fmt::format("there is no checkpoint of step {} in \"{}\"", step, from.string()),
                       ExitCode::incomplete);
  make_folders(files, root);
  take(files, from, root);
  const Path stage = root / stage_name(step);
  make_folder(files, stage);
  for (const std::string& name : names_in(source)) copy_synced(files, source / name, stage / name);
  sync_folder(files, stage);
  if (is_there(own)) discard(files, root, own);
  move_folder(files, stage, own);
  sync_folder(files, root);
}

}  // namespace distdl::checkpoint
