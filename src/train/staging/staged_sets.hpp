// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/data/options.hpp>
#include <distdl/train/staging/node_copies.hpp>

namespace distdl::train {

/// The data sets of a run, copied to the nodes (data.stage). A set is read from the shared file system once, however
/// many nodes there are: by the nodes that have no copy, each in its turn a piece, which it broadcasts to the others.
/// If some node has a copy of an earlier job, that is read instead. The order of samples does not depend on it.
class StagedSets {
 public:
  /// Collective. `node`: the name of this rank's node. A node that cannot keep a copy warns, and reads the shared file.
  /// Throws StorageError on all ranks if a set cannot be read; comm::PeerLost.
  StagedSets(const data::Options& options, comm::Communicator& communicator, Clock::duration timeout,
             const std::string& node);
  /// The options with the copies on this node in place of the sets.
  const data::Options& options() const noexcept { return options_; }
  /// Removes those copies on this node of which a chunk is damaged. Returns their names.
  std::vector<std::string> remove_damaged() const;

 private:
  std::vector<std::filesystem::path> copies_;  ///< on this node
  data::Options options_;
};

}  // namespace distdl::train
