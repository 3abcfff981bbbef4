// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/records/causes.hpp>
#include <distdl/records/field.hpp>

// The launches of ranks in a job, and the generations of ranks in a launch.
namespace distdl::records {

/// The nodes were checked before the first launch.
struct NodesChecked {
  static constexpr Kind kKind{"preflight", "the nodes were checked"};

  int nodes = 0;
  double seconds = 0;
  std::vector<std::string> excluded = {};
  std::string cause = {};       ///< what is the matter with those that are not well
  std::string unmeasured = {};  ///< whose links were not measured, and why
};

void describe(Is<NodesChecked> auto& r, auto&& visit) {
  visit("node_count", r.nodes, "nodes", "that were checked");
  visit("seconds", r.seconds, "seconds", "that it took");
  visit("excluded", if_any(r.excluded), "", "a list: nodes that are left out");
  visit("cause", if_any(r.cause), "", "what is the matter with those that are not well");
  visit("unmeasured", if_any(r.unmeasured), "", "nodes whose links were not measured, and why");
}

/// The ranks are started.
struct LaunchBegan {
  static constexpr Kind kKind{"launch", "the ranks are started"};

  int ranks = 0;           ///< 0: not known
  std::string nodes = {};  ///< on these; empty: on all of the job
  std::string id = {};     ///< the launch's id
};

void describe(Is<LaunchBegan> auto& r, auto&& visit) {
  visit("ranks", r.ranks, "ranks", kRanksMeaning);
  visit("nodes", if_any(r.nodes), "", kNodesMeaning);
  visit("id", if_any(r.id), "", "of the launch: its folder in launches/");
}

/// All ranks have ended.
struct LaunchEnded {
  static constexpr Kind kKind{"launch_ended", "all ranks have ended"};

  std::optional<int> code = {};
  std::string cause = {};      ///< "rank lost", "killed by signal 9", "srun failed" ...
  bool asked_to_stop = false;  ///< by a signal
  std::string cause_code = {};
};

void describe(Is<LaunchEnded> auto& r, auto&& visit) {
  visit("code", r.code, "", kCodeMeaning);
  visit("cause", if_any(r.cause), "", kCauseMeaning);
  visit("cause_code", if_any(r.cause_code), "", kCauseCodeMeaning);
  visit("asked_to_stop", if_any(r.asked_to_stop), "", "true: a signal asked for it");
}

inline void complete(LaunchEnded& r) {
  if (r.cause_code.empty()) r.cause_code = cause_of_exit(r.code.value_or(0));
}

/// True if the ranks ended as they should: they have finished, or they were asked to stop.
bool is_planned(const LaunchEnded& end);

/// A generation of ranks within a launch broke off. The time of its row is that at which an agent found the fault.
struct GenerationFailed {
  static constexpr Kind kKind{"failure", "a generation of ranks broke off; the agents go on"};

  std::int64_t generation = 0;
  std::string cause = {};  ///< "n2: rank 1 was killed by SIGKILL"
  std::string kind = {};   ///< "killed", "node lost" ...; empty: not known
  std::string node = {};   ///< that it is about; empty: not known
  std::optional<int> rank = {};
  std::string cause_code = {};
};

void describe(Is<GenerationFailed> auto& r, auto&& visit) {
  visit("generation", r.generation, "", "that broke off");
  visit("cause", if_any(r.cause), "", kCauseMeaning);
  visit("cause_code", r.cause_code, "", kCauseCodeMeaning);
  visit("kind", if_any(r.kind), "", "as the agents call it: \"killed\", \"node lost\"");
  visit("node", if_any(r.node), "", "that it is about, if known");
  visit("rank", r.rank, "", "likewise");
}

inline void complete(GenerationFailed& r) {
  if (r.cause_code.empty()) r.cause_code = cause_of_kind(r.kind);
}

/// The ranks of another generation within a launch are started.
struct GenerationBegan {
  static constexpr Kind kKind{"generation", "the ranks of another generation are started"};

  std::int64_t generation = 0;
  std::string cause = {};
  int ranks = 0;  ///< 0: not known
  std::string nodes = {};
};

void describe(Is<GenerationBegan> auto& r, auto&& visit) {
  visit("generation", r.generation, "", "that begins");
  visit("cause", if_any(r.cause), "", kCauseMeaning);
  visit("ranks", r.ranks, "ranks", kRanksMeaning);
  visit("nodes", if_any(r.nodes), "", kNodesMeaning);
}

/// A node of the launch that ended does not answer.
struct NodeLost {
  static constexpr Kind kKind{"node_lost", "a node of the launch that ended does not answer"};
};

void describe(Is<NodeLost> auto&, auto&&) {}

}  // namespace distdl::records
