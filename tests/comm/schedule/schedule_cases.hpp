// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/comm/verify/schedule_check.hpp>

namespace distdl::comm {

/// One thread that computes: sanitizers, which make it twenty times slower, need to see each kind of schedule only, and
/// get one of so many tries.
#ifdef DISTDL_SANITIZED
constexpr int kShare = 8;
#else
constexpr int kShare = 1;
#endif

/// How the ranks of a test lie on nodes.
enum class Layout { one_node, own_nodes, blocks, uneven, round_robin };

std::vector<int> nodes_of(int size, int nodes, Layout layout);

/// Everything of a problem but its size and place.
Problem problem_of(Collective collective, int size, std::size_t count, std::size_t element = 4);
/// The same for each rank.
std::vector<Problem> for_each_rank(const Problem& problem);

std::vector<Schedule> make_schedules(const std::vector<Problem>& problems, const Choice& choice);

/// Makes and checks the schedules of all ranks, apart and in place. "" or what is wrong.
std::string verdict(const std::vector<Problem>& problems, const Choice& choice);

std::string describe(const Problem& problem, const Choice& choice);

}  // namespace distdl::comm
