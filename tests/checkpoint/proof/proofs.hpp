// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/checkpoint/proof/story.hpp"

// The proofs themselves: each tries many cases and tells which of them broke a promise. Tests demand none; the test of
// mutants demands some. C1 to C6 are the names in the list of what is to be shown.
namespace distdl::checkpoint::proof {

struct ProofResult {
  std::size_t cases = 0;
  std::vector<std::string> broken;  ///< what went wrong, and where; the first few
  void add(const std::string& problem, const std::string& where);
};

/// How much to try; a mutant is caught as soon as one case is broken.
struct Effort {
  std::uint64_t first_seed = 0;
  std::size_t random_cases = 0;
  bool stop_at_first = false;
  bool thorough = false;             ///< for the long run
  std::string_view only_fault = {};  ///< of C5's six ways: "short write"
  int stride = 1;                    ///< each operation of a story, or each second, ..
};

/// C1: SIGKILL before every operation of a story.
ProofResult prove_kills(const Story& story, const Effort& effort);
/// C2: the power of a real ext4 goes before every operation of a story, in the middle of every write, and in every sync
/// between data and journal. Call cannot_make_ext4 before.
ProofResult prove_ext4_power_loss(const Story& story, const Effort& effort);
/// C3: what may be on the disk after a loss of power, at every moment of a story, and `random_cases` more.
ProofResult prove_power_loss(const Story& story, const Effort& effort);

/// Two runs want the same folder, and their operations interleave in every way with three switches: the one that took
/// it last finds what is there, and nothing is added to that but by itself. Unless thorough, they switch only before
/// what changes a name.
ProofResult prove_fence(const Effort& effort);
/// C5: every operation fails, once and from then on, in each of six ways; then the disk is well again.
ProofResult prove_faults(const Story& story, const Effort& effort);
/// A fault at every operation of a story, then a loss of power right after a save was acknowledged.
ProofResult prove_fault_and_power_loss(const Effort& effort);
/// One folder through `count` kills of its run at random instants.
struct RandomKills {
  std::size_t kills = 0, in_save = 0, saves = 0, unreadable = 0, wrong = 0;
};
RandomKills prove_random_kills(std::size_t count, std::uint64_t seed);
/// C7 and what else Saver and buffers promise: training that goes on, slow disks, damage between copy and disk, a run
/// that was superseded; and tags that are set while old checkpoints are being deleted.
ProofResult prove_snapshots(const Effort& effort);
/// Snapshots that are damaged on the way to other nodes, on the way back, or in memory, with a node lost too.
ProofResult prove_lost_nodes(const Effort& effort);
/// C6: `random_cases` ways to damage the newest checkpoint, which must not be restored.
ProofResult prove_damage(const Effort& effort, const std::string& compression = "none");
/// The same damage, and then the same step is saved again with the same bytes: it must be whole afterwards.
ProofResult prove_saving_over_damage(const Effort& effort);

}  // namespace distdl::checkpoint::proof
