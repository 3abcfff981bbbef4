// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <distdl/base/random.hpp>
#include <distdl/files/whole_file.hpp>

namespace distdl {

/// The user gave the file another name than it has until it is whole.
template <class Work>
void WholeFile::name_in_errors(const char* purpose, Work&& work) try {
  work();
} catch (const FileError& error) {
  throw FileError(purpose, path_, error.number());
}

WholeFile::WholeFile(FileSystem& files, Path path, Overwrite overwrite) : files_(files), path_(std::move(path)) {
  std::error_code ignored;  // a link is there also if it leads nowhere
  const auto there = std::filesystem::symlink_status(path_, ignored).type();
  require<UsageError>(overwrite == Overwrite::replace || there == std::filesystem::file_type::not_found,
                      "\"{}\" already exists; --force replaces it", path_.string());
  check_replaceable(path_);
  const Path folder = path_.has_parent_path() ? path_.parent_path() : Path(".");
  require<StorageError>(std::filesystem::is_directory(folder, ignored),
                        "cannot create \"{}\": there is no folder \"{}\"; create it first", path_.string(),
                        folder.string());
  path_ = resolved_place(path_);
  unfinished_ = path_.parent_path() / fmt::format(".{}.{}", path_.filename().string(), random_hex(4));
  removed_by_interrupt_.emplace(unfinished_);
  name_in_errors("create", [&] { file_.emplace(files_, unfinished_, OpenFile::Mode::create); });
}

WholeFile::~WholeFile() {
  if (file_) files_.unlink(unfinished_.c_str());
}

void WholeFile::append(std::span<const std::byte> bytes) {
  name_in_errors("write", [&] { file_->write_at(bytes, size_); });
  size_ += bytes.size();
}

void WholeFile::rewrite(std::string_view text, std::uint64_t offset) {
  name_in_errors("write", [&] { file_->write_at(std::as_bytes(std::span(text)), offset); });
}

void WholeFile::publish() {
  name_in_errors("write", [&] {
    file_->sync();
    file_->close();
  });
  if (files_.rename(unfinished_.c_str(), path_.c_str(), 0) != 0) throw FileError("replace", path_, errno);
  file_.reset();
  removed_by_interrupt_.reset();
  sync_folder(files_, path_.parent_path());
}

}  // namespace distdl
