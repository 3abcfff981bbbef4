// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <unistd.h>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/app/worker/failure.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/world/world.hpp>

namespace distdl::app {

std::vector<Rank> gone(const std::exception& error) {
  if (const auto* missing = dynamic_cast<const world::RanksMissing*>(&error)) return missing->ranks();
  const auto* lost = dynamic_cast<const comm::PeerLost*>(&error);
  if (lost && lost->exit_code() == ExitCode::peer_lost) return {lost->rank()};
  return {};
}

bool speaks(Rank self, const std::exception& error) {
  auto ranks = gone(error);
  for (Rank lower(0); lower < self; ++lower.value)
    if (std::find(ranks.begin(), ranks.end(), lower) == ranks.end()) return false;
  return true;
}

int own_exit_code(const std::exception& error) {
  const auto code = exit_code_of(error);
  const bool is_heard = dynamic_cast<const comm::PeerLost*>(&error) != nullptr;
  return static_cast<int>(is_heard && code == ExitCode::corruption ? ExitCode::peer_lost : code);
}

void fail(Rank self, const std::exception& error, Speakers speakers) {
  log(Severity::error, "{}", message_of(error));  // rank 0's log goes to the console too
  if (self != Rank(0) && (speakers == Speakers::this_rank || speaks(self, error)))
    Console(STDERR_FILENO).line(fmt::format("error rank={} {}", self, printable(message_of(error))));
  throw Ended(own_exit_code(error));
}

}  // namespace distdl::app
