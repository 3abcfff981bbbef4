// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/ids.hpp>
#include <distdl/parallel/server/rules.hpp>

// The nodes of a run: each rank may have one of each role.
namespace distdl::parallel::server {

enum class Role { worker, server, scheduler };
constexpr int kRoles = 3;
constexpr Node node_of(Rank rank, Role role) {
  return Node(rank.value * kRoles + static_cast<int>(role));
}
constexpr Rank rank_of(Node node) {
  return Rank(node.value / kRoles);
}
constexpr Role role_of(Node node) {
  return static_cast<Role>(node.value % kRoles);
}

}  // namespace distdl::parallel::server
