// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <distdl/checkpoint/group.hpp>

namespace distdl::checkpoint {

/// Collective. Every rank does its `work` and tells the others its result. If it throws on any rank, every rank throws
/// the same StorageError, naming `what`, the first rank that failed and why. Errors of the group itself pass through.
std::vector<std::string> agree(Group& group, const std::string& what, const std::function<std::string()>& work);

/// Collective. The same by Group::all_gather_in_step().
std::vector<std::string> agree_in_step(Group& group, const std::string& what, const std::function<std::string()>& work);

/// Collective. The same with work for rank 0 only; returns its result on all ranks.
std::string leader_decides(Group& group, const std::string& what, const std::function<std::string()>& work);

}  // namespace distdl::checkpoint
