// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace distdl::checkpoint {

/// Calls work(0) .. work(count - 1), each once and in any order, from the caller and up to `threads` - 1 other threads.
/// Returns when all calls are done. If one throws, no new calls begin, and the first exception is rethrown.
void for_each_block(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& work);

}  // namespace distdl::checkpoint
