// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <distdl/files/whole_file.hpp>

namespace distdl::train {

/// A data set, and by what its copies are known.
struct StagedSet {
  std::filesystem::path file;  ///< on the shared file system
  std::string digest;
  std::uint64_t bytes = 0;
  std::string name() const;  ///< the file name of a copy
};

/// The copies of data sets that the jobs of this user keep on this node's disk, or in its memory.
class NodeCopies {
 public:
  /// `folder`: data.stage. Others cannot write where the copies are. Throws StorageError.
  NodeCopies(const std::filesystem::path& folder, const std::string& node);
  std::filesystem::path place_of(const StagedSet& set) const;
  /// Whether there is a whole copy with this digest, which then counts as used just now. Another file of its name is
  /// removed.
  bool has(const StagedSet& set) const;
  /// Makes room, if that helps, by deleting copies that were not used in the last hour, the oldest first; jobs that
  /// have them open can go on. Throws StorageError if there is too little.
  void make_room_for(const StagedSet& set) const;
  /// A new copy, which has its name only when it is whole.
  std::unique_ptr<WholeFile> begin(const StagedSet& set) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace distdl::train
