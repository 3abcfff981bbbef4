// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/agent/rank_reports.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::app {

/// A node whose ranks nobody tells of.
struct SilentNode {
  std::string host;
  std::string heard_by;       ///< the node that heard it last
  double silent_seconds = 0;  ///< since then
};

/// What the agents of a run, or its supervisor, have answered.
struct RankAnswers {
  std::vector<agent::NodeReport> nodes;  ///< in the order of their numbers
  std::vector<SilentNode> silent;
  double waited_seconds = 0;
  /// Of all nodes, in the order of their numbers.
  std::vector<agent::RankReport> ranks() const;
  /// Of a rank; empty if nobody tells of it.
  std::string host_of(Rank rank) const;
};

/// Asks all that started ranks of this run, and waits until each has answered, at most for `timeout`. Throws
/// StorageError if the run folder cannot be written.
RankAnswers ask_about_ranks(const std::filesystem::path& run_folder, Milliseconds timeout);

}  // namespace distdl::app
