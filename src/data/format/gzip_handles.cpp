// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <new>

#include <distdl/base/errors.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/format/gzip_handles.hpp>

namespace distdl::data {
namespace {
constexpr std::size_t kLargestRead = std::size_t{1} << 30;  // gzread counts in int
}

void close_gzip(gzFile file) noexcept {
  gzclose_r(file);
}

GzipReader::GzipReader(std::filesystem::path path) : path_(std::move(path)) {
  errno = 0;
  file_.reset(gzopen(path_.c_str(), "rb"));
  if (!file_)
    throw StorageError(fmt::format("cannot open \"{}\": {}", path_.string(), errno_text(errno)),
                       errno == ENOENT || errno == ENOTDIR ? ExitCode::incomplete : ExitCode::storage);
  gzbuffer(file_.get(), 1 << 17);
}

std::size_t GzipReader::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    auto wanted = static_cast<unsigned>(std::min(bytes.size() - done, kLargestRead));
    int count = gzread(file_.get(), bytes.data() + done, wanted);
    int status = Z_OK;
    const char* reason = gzerror(file_.get(), &status);
    if (status == Z_ERRNO) throw StorageError(fmt::format("cannot read \"{}\": {}", path_.string(), errno_text(errno)));
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (count < 0 || status != Z_OK)  // a cut-off gzip file gives what it has, and Z_BUF_ERROR
      throw StorageError(
          fmt::format("\"{}\" is damaged or truncated (zlib: {}); download it again", path_.string(), reason),
          ExitCode::corrupt);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (const auto place = gzoffset(file_.get()); place > counted_) {
    work_done(WorkUnit::bytes, static_cast<std::uint64_t>(place - counted_));
    counted_ = place;
  }
  return done;
}

}  // namespace distdl::data
