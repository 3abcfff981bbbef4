// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/comm/communicator.hpp>

namespace distdl::comm {

/// All ranks send each other messages of `floats` numbers until rank `fragile` is lost, whose loss they tolerate. The
/// others then send each other some more. At last the loss counts: throws PeerLost. Calls `running` when some messages
/// have come from all.
void go_on_without(Communicator& comm, Rank fragile, std::size_t floats, const std::function<void()>& running);

}  // namespace distdl::comm
