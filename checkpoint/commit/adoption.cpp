// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include <distdl/checkpoint/commit/adoption.hpp>
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
}  // namespace

void adopt_checkpoint(FileSystem& files, const Path& from, const Path& root, Step step) {
  const Path source = from / step_folder_name(step), own = root / step_folder_name(step);
  if (!is_there(source / kManifestName))
    throw StorageError(fmt::format("there is no checkpoint of step {} in \"{}\"", step, from.string()),
                       ExitCode::incomplete);
  const Path stage = root / stage_name(step);
  make_folders(files, stage);
  for (const std::string& name : names_in(source)) copy_synced(files, source / name, stage / name);
  sync_folder(files, stage);
  if (is_there(own)) discard(files, root, own);
  move_folder(files, stage, own);
  sync_folder(files, root);
}

}  // namespace distdl::checkpoint
