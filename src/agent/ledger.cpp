// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/ledger.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;
/// Bytes of a record. That of the launch has the name, the address and the share of the secret of each node, a name of
/// up to 255 bytes and some 150 besides.
constexpr std::size_t kLargest = kMostNodes * 512;

void write_whole(const fs::path& file, const std::string& text) {
  const FileDescriptor descriptor = open_regular(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(descriptor.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    require<StorageError>(count > 0, "cannot write \"{}\": {}", file.string(), errno_text(errno));
    done += static_cast<std::size_t>(count);
  }
  const bool synced = ::fsync(descriptor.get()) == 0;
  require<StorageError>(synced, "cannot write \"{}\": {}", file.string(), errno_text(errno));
}
}  // namespace

void Ledger::make_folder() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  require<StorageError>(!error, "cannot make folder \"{}\": {}", folder_.string(), error.message());
}

bool Ledger::exists() const {
  std::error_code error;
  return fs::status(folder_, error).type() != fs::file_type::not_found;
}

std::string Ledger::create(const std::string& name, const std::string& text) const {
  const fs::path target = file(name), own = folder_ / fmt::format(".{}.{}", name, random_hex(8));
  write_whole(own, text);
  const int linked = ::link(own.c_str(), target.c_str()) == 0 ? 0 : errno;
  ::unlink(own.c_str());
  // A server may have made the link and lost its answer: what stands there decides in any case.
  require<StorageError>(linked == 0 || linked == EEXIST, "cannot make \"{}\": {}", target.string(), errno_text(linked));
  return read_regular(target, kLargest);
}

std::optional<std::string> Ledger::read(const std::string& name) const try {
  return read_regular(file(name), kLargest);
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return std::nullopt;
  throw;
}

}  // namespace distdl::agent
