// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/comm/communicator.hpp>

namespace distdl::train {

/// Collective. Every rank does its `work`, which must not communicate. If it throws on any rank, every rank throws an
/// Error with the code and the message of the first one, so that no rank waits for another that has already ended.
/// `timeout`: longest wait for the slowest rank. checkpoint::agree() is for the steps of a save: it also gathers
/// results, and its error names the step; here the user is to see the message itself, since most are about the job
/// file.
void agree(comm::Communicator& communicator, Clock::duration timeout, const std::function<void()>& work);

}  // namespace distdl::train
