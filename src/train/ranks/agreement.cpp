// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/vote.hpp>
#include <distdl/train/ranks/agreement.hpp>

namespace distdl::train {

void agree(comm::Communicator& communicator, Clock::duration timeout, const std::function<void()>& work) {
  const auto votes = communicator.all_gather_strings(vote_on([&] { return work(), std::string(); }), timeout);
  const auto failed = failure_of(votes);
  if (!failed) return;
  // A trouble of one node is found sooner when its name is given; one of all ranks is not about nodes.
  if (failed->count == votes.size()) throw Error(failed->code, failed->message);
  const Rank rank(static_cast<int>(failed->rank));
  throw Error(failed->code,
              fmt::format("rank {} ({}): {}; {} of {} ranks do not have this problem", rank, communicator.host(rank),
                          failed->message, votes.size() - failed->count, votes.size()));
}

}  // namespace distdl::train
