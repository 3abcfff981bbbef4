// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/agent/simulation/event_queue.hpp"
#include "tests/agent/simulation/network.hpp"
#include "tests/agent/simulation/run_folder.hpp"

namespace distdl::agent::simulation {

/// The ranks of all nodes, one for each node. The ranks of a generation train while all of them run and reach each
/// other, save every few steps, and end when the run is finished.
class Training {
 public:
  struct Callbacks {
    std::function<void(std::size_t node, int code)> ended;
    std::function<void(std::size_t node, std::int64_t step)> progressed;
    std::function<void(const std::string&)> broken;  ///< a promise
  };

  Training(EventQueue& queue, Random& random, const Network& network, RunFolder& folder, const Schedule& schedule,
           Callbacks callbacks)
      : queue_(queue),
        random_(random),
        network_(network),
        folder_(folder),
        callbacks_(std::move(callbacks)),
        steps_(schedule.steps),
        notices_loss_(schedule.ranks_notice_loss),
        ranks_(schedule.most_nodes()) {}

  void start(std::size_t node, const Decision& decision);
  void stop(std::size_t node) { ranks_[node].told_to_stop = true; }
  /// Ends the rank of `node`, if it is the one that `id` says; 0: whichever runs.
  void end(std::size_t node, int code, std::uint64_t id = 0);
  /// The whole node; thaw() ends it.
  void freeze(std::size_t node) { ++ranks_[node].freezes; }
  void thaw(std::size_t node) { --ranks_[node].freezes; }
  /// Only the rank that runs there, until it is ended.
  void freeze_rank(std::size_t node) { ranks_[node].is_frozen = true; }
  /// Ranks on this node end with `code` at each start, or when all ranks have restored a checkpoint.
  void spoil(std::size_t node, int code, bool late = false) {
    (late ? ranks_[node].spoilt_late : ranks_[node].spoilt) = code;
  }

  bool runs(std::size_t node) const { return ranks_[node].id != 0; }
  bool is_frozen(std::size_t node) const { return ranks_[node].freezes > 0 || ranks_[node].is_frozen; }
  std::uint64_t id(std::size_t node) const { return ranks_[node].id; }
  Generation generation(std::size_t node) const { return ranks_[node].generation; }
  bool is_finished() const { return folder_.committed >= steps_; }

 private:
  struct Rank {
    std::uint64_t id = 0;  ///< 0: none runs
    Generation generation;
    bool is_up = false, told_to_stop = false, is_frozen = false, will_end = false;
    int spoilt = 0;       ///< its ranks end with this code at each start; 0: they do not
    int spoilt_late = 0;  ///< the same after the restore
    int freezes = 0;
  };
  struct Group {
    Decision decision;
    Time began;
    std::vector<bool> seen;  ///< members that have started
    bool ticks = false;      ///< ends when no member is here, and begins again with one that starts late
    bool begins = false, trains = false, saves_last = false;
    std::int64_t step = 0;
    Duration stuck{0};
  };

  bool is_here(NodeId node, Generation generation) const {
    const Rank& rank = ranks_[node.value];
    return rank.id != 0 && rank.generation == generation;
  }
  void tick(Generation generation);
  void begin(Group& group);
  void take(Generation generation, std::uint64_t id);
  void step(Group& group);
  void vote(Group& group, int code);
  void commit(Generation generation, std::int64_t step, std::uint64_t id, int code);
  bool is_whole(const Group& group) const;
  bool one_is_missing(const Group& group) const;
  bool is_stuck(const Group& group) const;
  bool leaves_at_start(const Group& group) const;
  void end_all(const Group& group, int code);
  void end_unless_frozen(std::size_t node, int code, std::uint64_t id);

  EventQueue& queue_;
  Random& random_;
  const Network& network_;
  RunFolder& folder_;
  Callbacks callbacks_;
  std::int64_t steps_;
  bool notices_loss_;
  std::vector<Rank> ranks_;
  std::map<Generation, Group> groups_;
  std::uint64_t last_id_ = 0;
};

}  // namespace distdl::agent::simulation
