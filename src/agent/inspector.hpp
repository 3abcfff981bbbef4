// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/rank_reports.hpp>

namespace distdl::agent {

/// Folder of the questions: each is a folder below, whose name is its id. Each process that has started ranks writes
/// its NodeReport into it, as "<host>-<pid>.json". The process that asked removes the question.
std::filesystem::path questions_folder(const std::filesystem::path& run_folder);

/// Data from which an answer is made.
struct InspectedNode {
  std::string host;
  std::uint32_t node = 0;
  std::string note = {};
  std::vector<StartedRank> ranks = {};
  std::vector<NodeSeen> nodes = {};
};

/// Answers what "distdl why" asks about the ranks that this process started. It has a thread of its own, because the
/// file system may not answer. It looks for questions once a second.
class Inspector {
 public:
  explicit Inspector(const std::filesystem::path& run_folder);
  /// Does not wait for a file system that hangs.
  ~Inspector();
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  /// Replaces the data from which answers are made.
  void update(InspectedNode node);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace distdl::agent
