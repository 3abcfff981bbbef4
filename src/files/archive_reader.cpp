// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <new>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <distdl/base/errors.hpp>
#include <distdl/files/archive_reader.hpp>

namespace distdl {
namespace {
constexpr std::size_t kPiece = std::size_t{1} << 20;  // a damaged head may announce any amount
}  // namespace

ArchiveReader::ArchiveReader(std::filesystem::path file, Format format)
    : file_(std::move(file)), format_(format), reader_(archive_read_new(), &archive_read_free) {
  if (!reader_) throw std::bad_alloc();
  descriptor_.reset(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!descriptor_ || ::fstat(descriptor_.get(), &status) != 0)
    throw StorageError(fmt::format("cannot open \"{}\": {}", file_.string(), errno_text(errno)));
  require<StorageError>(S_ISREG(status.st_mode), "\"{}\" is no regular file", file_.string());
  archive* const reader = reader_.get();
  const bool is_ready = format_ == Format::zip ? archive_read_support_format_zip_seekable(reader) == ARCHIVE_OK
                                               : archive_read_support_format_tar(reader) == ARCHIVE_OK &&
                                                     archive_read_support_filter_gzip(reader) == ARCHIVE_OK &&
                                                     archive_read_support_filter_zstd(reader) == ARCHIVE_OK;
  if (!is_ready || archive_read_open_fd(reader, descriptor_.get(), 1 << 16) != ARCHIVE_OK) fail();
}

ArchiveReader::~ArchiveReader() = default;
ArchiveReader::ArchiveReader(ArchiveReader&&) noexcept = default;

bool ArchiveReader::next() {
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(reader_.get(), &entry);
    if (code == ARCHIVE_EOF) return false;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) fail();
    const char* const name = archive_entry_pathname(entry);
    name_ = name ? name : "";
    const bool is_link = archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK;
    require(!is_link, "\"{}\" in \"{}\" is a link; an archive of files was expected", name_, file_.string());
    const std::filesystem::path path(name_);
    require(path.is_relative() && std::ranges::find(path, "..") == path.end(),
            "\"{}\" in \"{}\" leaves the folder of the archive", name_, file_.string());
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    bytes_ = static_cast<std::uint64_t>(std::max<la_int64_t>(archive_entry_size(entry), 0));
    return true;
  }
}

std::vector<std::byte> ArchiveReader::read(std::size_t most) {
  require<StorageError>(bytes_ <= most, "\"{}\" in \"{}\" has {} bytes, but at most {} are expected", name_,
                        file_.string(), bytes_, most);
  std::vector<std::byte> content;
  while (content.size() < bytes_) {
    const std::size_t done = content.size();
    content.resize(std::min<std::uint64_t>(bytes_, done + kPiece));
    const auto got = archive_read_data(reader_.get(), content.data() + done, content.size() - done);
    if (got < 0) fail();
    require<StorageError>(got > 0, "\"{}\" in \"{}\" ends too early", name_, file_.string());
    content.resize(done + static_cast<std::size_t>(got));
  }
  return content;
}

std::size_t ArchiveReader::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got = archive_read_data(reader_.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0) fail();
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void ArchiveReader::fail() const {
  if (archive_errno(reader_.get()) == ENOMEM) throw std::bad_alloc();
  const char* const why = archive_error_string(reader_.get());
  throw StorageError(fmt::format("cannot read \"{}\" as a {} archive: {}", file_.string(),
                                 format_ == Format::zip ? "zip" : "tar", why ? why : "it is another kind of file"),
                     ExitCode::corrupt);
}

}  // namespace distdl
