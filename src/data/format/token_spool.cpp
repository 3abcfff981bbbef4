// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <vector>

#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/token_spool.hpp>
#include <distdl/data/staged_file.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::data {
namespace {
[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int number) {
  throw StorageError(fmt::format("cannot {} \"{}\": {}", what, path.string(), errno_text(number)));
}
}  // namespace

TokenSpool::TokenSpool(const std::filesystem::path& output)
    : path_(resolved_place(output).parent_path() /
            fmt::format(".{}.tokens-{}", output.filename().string(), ::getpid())) {
  remove_file(path_);  // left by a killed process that had our number
  file_ = create_file(path_);
  if (!remove_file(path_)) fail("remove", path_, errno);
}

void TokenSpool::append(std::span<const std::uint32_t> tokens) {
  auto bytes = std::as_bytes(tokens);
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  count_ += static_cast<std::int64_t>(tokens.size());
}

void TokenSpool::read(const std::function<void(std::span<const std::int64_t>)>& take) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::uint32_t> stored(kAtOnce);
  std::vector<std::int64_t> wide;
  for (std::int64_t at = 0; at < count_; at += static_cast<std::int64_t>(wide.size())) {
    const auto wanted = static_cast<std::size_t>(std::min(kAtOnce, count_ - at));
    auto rest = std::as_writable_bytes(std::span(stored).first(wanted));
    auto offset = static_cast<off_t>(at) * static_cast<off_t>(sizeof(std::uint32_t));
    while (!rest.empty()) {
      const ssize_t got = ::pread(file_.get(), rest.data(), rest.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("read", path_, got == 0 ? EIO : errno);
      rest = rest.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
    wide.assign(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(wanted));
    take(wide);
  }
}

}  // namespace distdl::data
