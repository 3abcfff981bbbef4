// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace distdl::agent {

/// The decisions of one launch, a file for each, in a folder that all agents see. A file is created once and never
/// changed, so that all agents read the same decision, whoever of them made it. link(2) is the atomic step; NFS,
/// Lustre and GPFS keep it atomic among hosts.
class Ledger {
 public:
  /// Creates the folder if it does not exist. Throws StorageError.
  explicit Ledger(std::filesystem::path folder);
  /// Creates the record `name` ("7" for generation 7) unless there is one. Returns what stands there now: `text`, or
  /// what another agent has written. Throws StorageError.
  std::string create(const std::string& name, const std::string& text) const;
  /// Nothing if there is no such record. Throws StorageError.
  std::optional<std::string> read(const std::string& name) const;

 private:
  std::filesystem::path file(const std::string& name) const;

  std::filesystem::path folder_;
};

}  // namespace distdl::agent
