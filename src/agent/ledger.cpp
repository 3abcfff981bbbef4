// SPDX-License-Identifier: Apache-2.0
#include <distdl/agent/decision.hpp>
#include <distdl/agent/ledger.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/files/private_folder.hpp>

namespace distdl::agent {
namespace {
/// Bytes of a record. That of the launch has the name, the address and the share of the secret of each node, a name of
/// up to 255 bytes and some 150 besides.
constexpr std::size_t kLargest = kMostNodes * 512;
}  // namespace

void Ledger::make_folder() const {
  PrivateFolder::make(folder_);
}

bool Ledger::exists() const try {
  return PrivateFolder::open(folder_).has_value();
} catch (const StorageError&) {  // it is there, and the next access says what is wrong with it
  return true;
}

std::string Ledger::create(const std::string& name, const std::string& text) const {
  const auto folder = PrivateFolder::open(folder_);
  require<StorageError>(folder.has_value(), "cannot write \"{}\": its folder is gone", file(name).string());
  const std::string record = file(name).filename().string();
  folder->create(record, text);
  return folder->read(record, kLargest);
}

std::optional<std::string> Ledger::read(const std::string& name) const try {
  const auto folder = PrivateFolder::open(folder_);
  return folder ? std::optional(folder->read(file(name).filename().string(), kLargest)) : std::nullopt;
} catch (const StorageError& error) {
  if (error.exit_code() == ExitCode::incomplete) return std::nullopt;
  throw;
}

}  // namespace distdl::agent
