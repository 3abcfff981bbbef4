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

/// Where questions are asked: each is a folder below, whose name is its id. Who starts ranks writes its NodeReport into
/// it, as "<host>-<pid>.json". Who asked removes it.
std::filesystem::path questions_folder(const std::filesystem::path& run_folder);

/// What an answer is made of.
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

  /// From now on answers are made of this.
  void update(InspectedNode node);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace distdl::agent
