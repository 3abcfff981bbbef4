// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/train/loop/corruption.hpp>

namespace distdl::train {
namespace {
std::string node_of(int rank, const std::vector<std::string>& nodes, const comm::Communicator& communicator) {
  const auto place = static_cast<std::size_t>(rank);
  return place < nodes.size() && !nodes[place].empty() ? nodes[place] : communicator.host(Rank(rank));
}
}  // namespace

void end_corrupted(const AuditFailed& found, const std::vector<std::string>& nodes, const TrainingState& state,
                   comm::Communicator& communicator, Checkpointing& checkpointing, records::Observer& observer) {
  const auto& verdict = found.verdict();
  records::Corrupted event{found.step(), state.audited, verdict.wrong, {}, verdict.is_certain, verdict.reason, {}};
  for (const int rank : verdict.wrong)
    if (auto node = node_of(rank, nodes, communicator); std::ranges::find(event.hosts, node) == event.hosts.end())
      event.hosts.push_back(std::move(node));
  const bool is_wrong = ends_as_wrong(verdict, event.hosts.size(), communicator.rank().value);
  if (is_wrong) enter_phase(RankPhase::corrupted);
  const auto text = fmt::format(
      "silent corruption found by the audit of step {} on {}{}: {}. The next start continues from the newest "
      "checkpoint up to step {}, the last one that passed an audit",
      found.step(), verdict.is_certain ? "" : "one of ", fmt::join(event.hosts, ", "), verdict.reason,
      state.audited.value_or(Step(0)));
  try {
    event.set_aside = checkpointing.distrust(text);
  } catch (const Error& error) {  // also where a rank that has heard all ended before this one
    log(Severity::warning, "{}", error.what());
  }
  observer.on(event);
  if (is_wrong) throw Error(ExitCode::corruption, text);
  throw CommError(text);
}

}  // namespace distdl::train
