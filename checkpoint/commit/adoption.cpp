// SPDX-License-Identifier: Apache-2.0
#include <distdl/checkpoint/commit/adoption.hpp>
#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/format/layout.hpp>

namespace distdl::checkpoint {
namespace {
void copy_synced(FileSystem& files, const Path& from, const Path& to) {
  std::error_code error;
  std::filesystem::copy_file(from, to, error);
  if (error) throw FileError("copy \"" + from.string() + "\" to", to, error.value());
  OpenFile copy(files, to, OpenFile::Mode::write);
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
