// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::comm {

/// A peer died, froze, left or cannot be reached. The communicator is of no more use; build one of the next generation.
/// The message names operation, rank, host and, where the peer could still say it, its reason; exit_code() is then that
/// of the reason, so that all ranks end with the code of the cause.
class PeerLost : public CommError {
 public:
  PeerLost(Rank rank, std::string host, const std::string& message, ExitCode code = ExitCode::peer_lost)
      : CommError(message, code), rank_(rank), host_(std::move(host)) {}
  Rank rank() const noexcept { return rank_; }
  const std::string& host() const noexcept { return host_; }

 private:
  Rank rank_;
  std::string host_;
};

}  // namespace distdl::comm
