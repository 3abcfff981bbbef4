// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <distdl/checkpoint/group.hpp>

namespace distdl::checkpoint {

/// Collective. Every rank does its `work` and sends its result to the others. If the work throws on any rank, every
/// rank throws the same StorageError, which names `what`, the first rank that failed and the cause. Errors of the group
/// itself pass through.
std::vector<std::string> agree(Group& group, const std::string& what, const std::function<std::string()>& work);

/// Collective. Like agree(), but with Group::all_gather_in_step().
std::vector<std::string> agree_in_step(Group& group, const std::string& what, const std::function<std::string()>& work);

/// Collective. Only rank 0 does the work; its result is returned on all ranks.
std::string leader_decides(Group& group, const std::string& what, const std::function<std::string()>& work);

}  // namespace distdl::checkpoint
