// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::checkpoint {

/// The part of a save for which training waits.
enum class SaveMode { async, lazy, sync };
constexpr std::array<Named<SaveMode>, 3> choices_of(SaveMode) {
  return {{
      {SaveMode::async, "async",
       "a copy in /dev/shm, which must hold twice the state, or three times with snapshots that stay there, or four "
       "times with both partners and parity"},
      {SaveMode::lazy, "lazy", "nothing: the copy is made during the next forward and backward pass"},
      {SaveMode::sync, "sync", "the disk"},
  }};
}

/// The set of nodes that may be lost together.
enum class FailureDomain { node, network_switch };
constexpr std::array<Named<FailureDomain>, 2> choices_of(FailureDomain) {
  return {{
      {FailureDomain::node, "node", ""},
      {FailureDomain::network_switch, "switch", "all nodes below a switch of Slurm's topology"},
  }};
}

/// Steps between checkpoints: a number, or computed from the costs of saves and failures.
struct Interval {
  std::int64_t steps = 0;  ///< 0: none before the end of the run
  bool automatic = false;

  constexpr Interval() = default;
  constexpr Interval(std::int64_t number) : steps(number) {}  // NOLINT(google-explicit-constructor): a number is one
  static constexpr Interval by_cost() {
    Interval interval;
    interval.automatic = true;
    return interval;
  }
  bool operator==(const Interval&) const = default;
};

struct Options {
  Interval every = 100;             ///< steps between checkpoints; 0: only at the end and when the run must stop
  double mtbf_hours = 0;            ///< for Interval::by_cost; 0: estimated from the run's own journal
  std::int64_t keep = 3;            ///< newest verified checkpoints to keep; at least 2
  std::int64_t keep_every = 0;      ///< keep the first checkpoint of every so many steps for good; 0: none
  bool partial = false;             ///< resume also from a checkpoint that lacks tensors or has others
  bool verify_after_write = false;  ///< read every file back before the commit; doubles the time of a save
  double timeout_seconds = 1800;  ///< longest wait for another rank that writes or checks files; for the caller's Group
  OneOf<SaveMode> mode = SaveMode::async;
  std::int64_t memory_every = 0;   ///< steps between snapshots that stay in the nodes' memory; 0: none
  std::int64_t partner_every = 0;  ///< steps between snapshots that are copied to another node's memory; 0: none
  std::int64_t parity_every = 0;   ///< steps between snapshots of which other nodes keep parity; 0: none
  std::int64_t parity_set = 8;     ///< most ranks that share parity
  std::int64_t disk_every = 0;     ///< steps between snapshots that are copied to the node's own disk; 0: none
  std::string disk_folder = {};    ///< folder on the node's own disk
  OneOf<FailureDomain> failure_domain = FailureDomain::node;
  /// Threads with which a rank copies its state; more are useful if memory is faster than a core.
  std::int64_t copy_threads = 1;
  std::int64_t write_threads = 2;    ///< threads with which a rank writes or reads its file
  std::string compression = "none";  ///< see compression_help(); a save then needs memory for the
                                     ///< compressed bytes, and takes longer than on a fast disk
};

/// Whether snapshots are kept anywhere else than on the file system of the checkpoints.
bool has_levels(const Options& options);
/// Throws ConfigError for invalid values.
void check(const Options& options);
/// The values of Options::compression and their purposes.
const char* compression_help();

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("checkpoint.every", options.every,
        "steps between checkpoints; 0: only at the end and when the run must stop; \"auto\": computed from "
        "the cost of saves and the rate of failures");
  visit("checkpoint.mtbf_hours", options.mtbf_hours,
        "with checkpoint.every = \"auto\": mean hours between failures; 0: estimated from the run's journal");
  visit("checkpoint.keep", options.keep, "number of newest verified checkpoints to keep; at least 2");
  visit("checkpoint.keep_every", options.keep_every,
        "keep the first checkpoint of every N steps for good, besides the newest ones; 0: none");
  visit("checkpoint.partial", options.partial,
        "also resume from a checkpoint that lacks tensors or has others: missing ones are initialized, others are "
        "ignored, and snapshots that do not fit are not used; \"distdl run --partial\" sets it for one command and "
        "its relaunches");
  visit("checkpoint.verify_after_write", options.verify_after_write,
        "read every file back before the commit; doubles the time of a save");
  visit(
      "checkpoint.timeout_seconds", options.timeout_seconds,
      "longest wait for a rank that prepares, writes, checks or reads files, in seconds; after that it counts as lost");
  visit("checkpoint.mode", options.mode, OneOf<SaveMode>::help("what training waits for when its state is saved"));
  visit("checkpoint.memory_every", options.memory_every,
        "steps between snapshots that stay in the nodes' memory, for a restart on the same nodes; 0: none");
  visit("checkpoint.partner_every", options.partner_every,
        "steps between snapshots that are copied to the memory of another failure domain; 0: none");
  visit("checkpoint.parity_every", options.parity_every,
        "steps between snapshots of which nodes of other failure domains keep the parity; 0: none");
  visit("checkpoint.parity_set", options.parity_set, "ranks that share one parity, at most; at least 3");
  visit("checkpoint.disk_every", options.disk_every,
        "steps between snapshots that are copied to the node's own disk; 0: none");
  visit("checkpoint.disk_folder", options.disk_folder, "folder on the node's own disk, for checkpoint.disk_every");
  visit("checkpoint.failure_domain", options.failure_domain,
        OneOf<FailureDomain>::help("set of nodes that may be lost together"));
  visit("checkpoint.copy_threads", options.copy_threads, "threads of a rank that copy its state");
  visit("checkpoint.write_threads", options.write_threads, "threads of a rank that write or read its file");
  visit("checkpoint.compression", options.compression, compression_help());
}

}  // namespace distdl::checkpoint
