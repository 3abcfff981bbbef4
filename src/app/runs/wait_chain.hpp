// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <distdl/agent/rank_reports.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::app {

/// Ranks each of which waits for the next one. The last one waits for no other.
struct WaitChain {
  enum class End {
    busy,     ///< it is at something of its own
    stopped,  ///< its process does not run: stopped by a signal or a debugger, or ended
    unknown,  ///< no answer has the rank
    circle,   ///< it waits for a rank of the chain, which is repeated at the end
    passing,  ///< the same, but one of them has only just begun to: not all were looked at in one moment
  };
  std::vector<Rank> ranks;
  End end = End::busy;
  std::size_t waiting = 0;  ///< ranks that wait for the last one, by whatever way
};

/// The longest chain to each end; that for which most ranks wait comes first. A rank without a wait, for which no other
/// waits, is a chain by itself. `ranks`: in the order of their numbers.
std::vector<WaitChain> wait_chains(const std::vector<agent::RankReport>& ranks);

/// "rank 3 waits in all-reduce 356 for rank 1, which waits ... for rank 0, which is in data at step 118 for 12.3 s".
std::string sentence_of(const WaitChain& chain, const std::vector<agent::RankReport>& ranks);

/// "frozen (stopped by a signal, state T)"; empty for a process that runs.
std::string text_of_state(const std::string& state);
/// "0.02 s", "12.3 s", "240 s".
std::string short_seconds(double seconds);

}  // namespace distdl::app
