// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/base/vote.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>

namespace distdl::checkpoint {
namespace {
std::string vote(const std::function<std::string()>& work) {
  return vote_on(work, ExitCode::storage);
}

std::vector<std::string> agreed(std::vector<std::string> votes, const std::string& what) {
  if (const auto failed = distdl::failure_of(votes))
    throw StorageError(
        fmt::format("cannot {}: rank {} of {}: {}{}", what, failed->rank, votes.size(), failed->message,
                    failed->count > 1 ? fmt::format(" (and {} more ranks failed)", failed->count - 1) : ""),
        failed->code);
  return results_of(std::move(votes));
}
}  // namespace

void Group::exchange_buffers(std::span<const Outgoing>, std::span<const Incoming>) {
  throw Error(ExitCode::internal, "this group of ranks does not exchange snapshots");
}

std::vector<std::string> agree(Group& group, const std::string& what, const std::function<std::string()>& work) {
  return agreed(group.all_gather(vote(work)), what);
}

std::vector<std::string> agree_in_step(Group& group, const std::string& what,
                                       const std::function<std::string()>& work) {
  return agreed(group.all_gather_in_step(vote(work)), what);
}

std::string leader_decides(Group& group, const std::string& what, const std::function<std::string()>& work) {
  return agree(group, what, [&] { return group.rank() == 0 ? work() : std::string(); })[0];
}

}  // namespace distdl::checkpoint
