// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <system_error>

#include <distdl/base/errors.hpp>
#include <distdl/observe/export/exporters.hpp>

namespace distdl::observe {
namespace {
void check_made(const std::error_code& error, const char* doing, const std::filesystem::path& what) {
  require<StorageError>(!error, "cannot {} \"{}\": {}", doing, what.string(), error.message());
}
}  // namespace

UnfinishedFolder::UnfinishedFolder(std::filesystem::path folder, bool replace)
    : folder_(std::move(folder)),
      unfinished_(folder_.parent_path() / ("." + folder_.filename().string() + ".unfinished")) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(folder_, error);
  require<StorageError>(!std::filesystem::exists(status) || replace,
                        "\"{}\" exists; remove it, or replace it with --force", folder_.string());
  require<StorageError>(!std::filesystem::exists(status) || std::filesystem::is_directory(status),
                        "\"{}\" is no folder; remove it", folder_.string());
  std::filesystem::remove_all(unfinished_, error);
  check_made(error, "remove", unfinished_);
  std::filesystem::create_directories(unfinished_, error);
  check_made(error, "create", unfinished_);
}

UnfinishedFolder::~UnfinishedFolder() {
  std::error_code error;
  std::filesystem::remove_all(unfinished_, error);  // what cannot be removed is not in the way
}

void UnfinishedFolder::write(const std::filesystem::path& name, std::string_view bytes) const {
  const auto file = unfinished_ / name;
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  check_made(error, "create", file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  require<StorageError>(out.good(), "cannot write \"{}\"; is the disk full?", file.string());
}

void UnfinishedFolder::finish() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  check_made(error, "replace", folder_);
  std::filesystem::rename(unfinished_, folder_, error);
  check_made(error, "create", folder_);
}

}  // namespace distdl::observe
