// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/base/clock.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::train {

/// Collective. The group of the threads that write checkpoints, for checkpoint::Saver. Only one thread may use a
/// Communicator, so these threads get a duplicate of the training threads'. `patience`: the longest wait, since others
/// may write gigabytes. Throws what Communicator::connect() throws; its waits throw PeerLost, or CommError after
/// cancel().
std::unique_ptr<checkpoint::Group> make_writing_group(comm::Communicator& training, Clock::duration patience);

}  // namespace distdl::train
