// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/membership/rules.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent::simulation {

/// What the network does to every datagram.
struct Disturbance {
  double drop = 0, repeat = 0, slow = 0;  ///< probabilities
  double stale = 0;                       ///< of a copy that comes half a minute later
  Milliseconds delay{20};                 ///< at most, unless slow
  Milliseconds slow_delay{1500};          ///< at most
};

enum class FaultKind {
  rank_crash,     ///< ends with `code`
  rank_freeze,    ///< until its agent kills it
  agent_starved,  ///< the agent does not run for a while, and loses what was sent to it
  node_freeze,    ///< agent and ranks do not run for a while
  node_crash,     ///< nothing runs there any more
  agent_crash,    ///< its ranks run on for a while
  isolation,      ///< no datagram to or from `node`
  link_cut,       ///< none between `node` and `other`
  one_way_cut,    ///< none from `node` to `other`
  partition,      ///< none between the nodes in `part` and the others
  ledger_outage,  ///< for `node`
  bad_node,       ///< ranks on it crash at each start
  slow_end,       ///< ranks on it need long to be killed
  stop            ///< a signal
};
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind{};
  Milliseconds at{0}, duration{0};
  std::uint32_t node = 0, other = 0;
  std::uint32_t part = 0;  ///< bit mask
  int code = 0;
  bool hangs = false;  ///< the ledger does not answer, instead of refusing
};
std::string describe(const Fault& fault);

/// A node of another job that joins the launch, if that has begun and not ended by then.
struct Joining {
  Milliseconds at{0};
  std::optional<Milliseconds> leaves;  ///< then it is told to go
  bool is_misfit = false;              ///< its ranks end at once, in a way that a relaunch cannot help
  bool fails_late = false;             ///< not at once, but when all ranks have restored a checkpoint
};

enum class Kind {
  quiet,   ///< no fault: only disturbance and late ticks. No generation may end
  single,  ///< one fault: the run must go on and finish, within seconds
  storm    ///< many faults: whatever happens, the run must end
};

/// One case, made from its seed.
struct Schedule {
  std::uint64_t seed = 0;
  Kind kind = Kind::quiet;
  std::size_t nodes = 1;
  Rules rules;
  Disturbance disturbance;
  std::vector<Fault> faults;
  std::vector<Joining> joining;   ///< earliest first
  std::int64_t steps = 60;        ///< of the run
  bool ranks_notice_loss = true;  ///< at once that another rank has ended; else after half a minute
  Milliseconds faults_end{0};     ///< after it everything that can heal has healed

  std::size_t most_nodes() const { return nodes + joining.size(); }  ///< with those that join
};

Schedule make_schedule(std::uint64_t seed);
std::string describe(const Schedule& schedule);

}  // namespace distdl::agent::simulation
