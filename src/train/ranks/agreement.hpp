// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <distdl/comm/communicator.hpp>

namespace distdl::train {

/// Collective. Every rank does its `work`, which must not communicate. If it throws on any rank, every rank throws an
/// Error with the code and the message of the first such rank. No rank thus waits for one that has already ended.
/// `timeout`: longest wait for the slowest rank. In contrast, checkpoint::agree() is for the steps of a save: it also
/// gathers results, and its error names the step. Here the user should see the original message, because most are about
/// the job file.
void agree(comm::Communicator& communicator, Clock::duration timeout, const std::function<void()>& work);

}  // namespace distdl::train
