// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace distdl::agent {

inline constexpr std::string_view kRecordEnd = ".json";  ///< end of the names of the records' files

/// The decisions of one launch, a file for each, in a folder that all agents see. A file is created once and never
/// changed, so that all agents read the same decision, whoever of them made it. link(2) is the atomic step; NFS,
/// Lustre and GPFS keep it atomic among hosts. The folder is private to its user (PrivateFolder): a user who may write
/// to the run folder can neither read the secret of the agents nor add a decision.
class Ledger {
 public:
  explicit Ledger(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// Creates the folder, if it does not exist: only before a launch begins. Who finds none later knows that the launch
  /// has ended. Throws StorageError.
  void make_folder() const;
  /// True if the folder exists, or cannot be examined.
  bool exists() const;
  /// Creates the record `name` ("7" for generation 7) unless there is one. Returns what stands there now: `text`, or
  /// what another agent has written. Throws StorageError.
  std::string create(const std::string& name, const std::string& text) const;
  /// The text of a record; nothing if there is no such record. Throws StorageError.
  std::optional<std::string> read(const std::string& name) const;
  /// The file of a record.
  std::filesystem::path file(const std::string& name) const { return folder_ / (name + std::string(kRecordEnd)); }

 private:
  std::filesystem::path folder_;
};

}  // namespace distdl::agent
