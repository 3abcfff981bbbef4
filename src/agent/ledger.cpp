// SPDX-License-Identifier: Apache-2.0
#include <distdl/agent/decision.hpp>
#include <distdl/agent/ledger.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::agent {
namespace {
namespace fs = std::filesystem;
/// Bytes of a record. That of the launch has the name, the address and the share of the secret of each node, a name of
/// up to 255 bytes and some 150 besides.
constexpr std::size_t kLargest = kMostNodes * 512;
}  // namespace

void Ledger::make_folder() const {
  make_folders(real_file_system(), folder_);
}

bool Ledger::exists() const {
  std::error_code error;
  return fs::status(folder_, error).type() != fs::file_type::not_found;
}

std::string Ledger::create(const std::string& name, const std::string& text) const {
  // A server may have made the file and lost its answer: what stands there decides in any case.
  create_whole(file(name), text, OpenFile::Mode::create_private);
  return read_regular(file(name), kLargest);
}

std::optional<std::string> Ledger::read(const std::string& name) const try {
  return read_regular(file(name), kLargest);
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return std::nullopt;
  throw;
}

}  // namespace distdl::agent
