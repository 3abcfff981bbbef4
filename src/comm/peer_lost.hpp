// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// A peer died, froze, left or cannot be reached. The communicator can no longer be used; create one of the next
/// generation. The message names operation, rank, host and, if the peer could send it, the reason. exit_code() is then
/// the code of the reason, so that all ranks end with the code of the cause.
class PeerLost : public CommError {
 public:
  PeerLost(Rank rank, std::string host, const std::string& message, ExitCode code = ExitCode::peer_lost,
           std::vector<Rank> ranks = {})
      : CommError(message, code), rank_(rank), host_(std::move(host)), ranks_(std::move(ranks)) {
    if (ranks_.empty()) ranks_ = {rank};
  }
  /// The rank that was lost first.
  Rank rank() const noexcept { return rank_; }
  const std::string& host() const noexcept { return host_; }
  /// All lost ranks that this rank knows, ascending.
  const std::vector<Rank>& ranks() const noexcept { return ranks_; }

 private:
  Rank rank_;
  std::string host_;
  std::vector<Rank> ranks_;
};

/// All ranks know that one of them has no memory for what they wanted. In contrast to other errors of communication,
/// the communicator can still be used.
class NoMemory : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace distdl::comm
