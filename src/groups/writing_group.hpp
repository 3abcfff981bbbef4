// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::groups {

/// Collective. The group of the writing threads, for checkpoint::Saver. Only one thread may use a Communicator, so
/// these threads get a duplicate of the training threads' communicator. `patience` is the longest wait, because other
/// ranks may write gigabytes. Throws as Communicator::connect() does. Its waits throw PeerLost, or CommError after
/// cancel().
std::unique_ptr<checkpoint::Group> make_writing_group(comm::Communicator& training, Clock::duration patience);

}  // namespace distdl::groups
