// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace distdl::comm::faults {

enum class Kind {
  kill,    ///< SIGKILL
  freeze,  ///< SIGSTOP, for ever
  abort,   ///< tells why it leaves
  desert,  ///< destroys its communicator without a word, and lives on
};

enum class When {
  before_exchange,  ///< it never comes to the bootstrap
  after_exchange,   ///< the others have its address, and nothing else
  connecting,       ///< at some time after it began to connect
  before,           ///< before the first operation
  middle,           ///< at some time after an operation began
  between,          ///< when it should begin an operation, after others
  closing,          ///< instead of closing
  amid_closing,     ///< at some time after it began to close
};

/// What all ranks do together, once.
enum class Work {
  small_sum,    ///< a float each
  large_sum,    ///< megabytes of plain memory
  shared_sum,   ///< megabytes of memory that the node's ranks share
  network_sum,  ///< the algorithm between nodes, whatever the placement
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  barrier,
  ring,     ///< messages to the next rank
  several,  ///< four operations at once
  part,     ///< each half of the ranks for itself
};

/// A generation of ranks, of which one fails. Ranks are numbered within it.
struct Round {
  int size = 0;
  int victim = 0;
  Kind kind = Kind::kill;
  When when = When::before;
  int operation = 0;            ///< where `when` refers to one
  std::uint32_t delay_us = 0;   ///< from its beginning; where `when` is a span of time
  int shared_memory_ranks = 0;  ///< as in Options
  std::vector<Work> works;      ///< done again and again
  double timeout_seconds() const;
  double connect_timeout_seconds() const;
  /// After what time, at most, the survivors must know.
  double allowed_seconds() const;
  bool at_bootstrap() const;
  /// May a survivor miss the loss, since it was done with the victim?
  bool may_pass() const { return when == When::amid_closing; }
};

/// One start of processes: a rank fails in each round and the survivors go on, until one is left.
struct Plan {
  std::vector<Round> rounds;
};
Plan make_plan(std::uint64_t seed);
std::string describe(const Round& round);
/// "killed", "frozen" ...
const char* name_of(Kind kind);

}  // namespace distdl::comm::faults
