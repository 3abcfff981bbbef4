// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/communicator.hpp>

namespace distdl::comm {

/// Each rank puts `floats` numbers into everyone's memory, gets them back, and sends them in messages, several times.
/// Throws InternalError for any that is wrong.
void put_get_and_send_messages(Communicator& comm, std::size_t floats);

}  // namespace distdl::comm
