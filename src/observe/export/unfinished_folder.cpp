// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <system_error>

#include <distdl/base/errors.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/export/exporters.hpp>

namespace distdl::observe {

UnfinishedFolder::UnfinishedFolder(const std::filesystem::path& folder, bool replace)
    : folder_(resolved_place(folder)),
      unfinished_(folder_.parent_path() / fmt::format(".{}.unfinished", folder_.filename().string())) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(folder_, error);
  require<StorageError>(!std::filesystem::exists(status) || replace,
                        "\"{}\" exists; remove it, or replace it with --force", folder_.string());
  require<StorageError>(!std::filesystem::exists(status) || std::filesystem::is_directory(status),
                        "\"{}\" is no folder; remove it", folder_.string());
  remove_tree(real_file_system(), unfinished_);  // of an export that was interrupted; a link is removed, not followed
  make_folders(real_file_system(), unfinished_);
}

UnfinishedFolder::~UnfinishedFolder() {
  remove_tree(real_file_system(), unfinished_);  // what cannot be removed is not in the way
}

void UnfinishedFolder::write(const std::filesystem::path& name, std::string_view bytes) const {
  const auto file = unfinished_ / name;
  make_folders(real_file_system(), file.parent_path());
  OpenFile out(real_file_system(), file, OpenFile::Mode::create);
  out.write_at(std::as_bytes(std::span(bytes)), 0);
  out.close();
}

void UnfinishedFolder::finish() {
  FileSystem& files = real_file_system();
  std::error_code error;
  const bool is_there = std::filesystem::is_directory(std::filesystem::symlink_status(folder_, error));
  if (is_there && swap_folders(files, unfinished_, folder_)) return;  // the old one is removed at the end
  if (is_there) remove_tree(files, folder_);
  move_folder(files, unfinished_, folder_);
}

}  // namespace distdl::observe
