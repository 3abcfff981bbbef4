// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>

namespace distdl::agent {

/// The operation in which a thread waits.
struct WaitReport {
  std::string operation;  ///< "all-reduce 356"
  std::uint64_t bytes = 0;
  std::optional<Rank> rank;  ///< the rank for which it waits
  double seconds = 0;
};

struct ThreadReport {
  std::string name;   ///< "train", "reader", "writer"
  std::string phase;  ///< as name_of(RankPhase)
  double seconds = 0;
  std::optional<std::int64_t> step = {};
  std::optional<WaitReport> wait = {};
  std::string state = {};               ///< as /proc tells: "R", "S", "D", "T"; empty: not known
  std::string kernel = {};              ///< the function of the kernel in which it waits; empty: not known
  std::vector<std::string> stack = {};  ///< the innermost first; empty: it did not answer, or was not asked
};

struct RankReport {
  Rank rank;
  std::int64_t process = 0;
  std::string state;                  ///< state of the process, as in /proc
  std::vector<ThreadReport> threads;  ///< the training one first; none: it does not show any yet
};

/// A node as an agent sees it.
struct NodeSeen {
  std::string host;
  bool has_ranks = false;
  double silent_seconds = 0;  ///< time since it was heard last
};

/// Report of the agent of a node, or of the supervisor of local ranks, about the ranks that it started.
struct NodeReport {
  std::string host;
  std::uint32_t node = 0;  ///< number in the launch
  std::string note;        ///< for people, where there is more to say
  std::vector<RankReport> ranks;
  std::vector<NodeSeen> nodes;  ///< all nodes of the launch; their places are their numbers
};

std::string to_text(const NodeReport& report);
/// Nothing if the text is no report.
std::optional<NodeReport> node_report_from(const std::string& text);

}  // namespace distdl::agent
