// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <distdl/agent/rank_reports.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::app {

/// A node whose ranks are in no answer.
struct SilentNode {
  std::string host;
  std::string heard_by;       ///< the node that heard it last
  double silent_seconds = 0;  ///< since then
};

/// Answers of a run's agents, or of its supervisor.
struct RankAnswers {
  std::vector<agent::NodeReport> nodes;  ///< in the order of their numbers
  std::vector<SilentNode> silent;
  double waited_seconds = 0;
  /// Reports of all ranks, in the order of their numbers.
  std::vector<agent::RankReport> ranks() const;
  /// Host of a rank; empty if no answer has the rank.
  std::string host_of(Rank rank) const;
};

/// Asks all that started ranks of this run, and waits until each has answered, at most for `timeout`. Throws
/// StorageError if the run folder cannot be written.
RankAnswers ask_about_ranks(const std::filesystem::path& run_folder, Milliseconds timeout);

}  // namespace distdl::app
