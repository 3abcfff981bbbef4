// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Runs the schedules of all ranks on numbers, in an order of steps and moments of delivery that `seed` draws: what a
/// cluster might do, and nothing of what check_schedules() reasons with. Ranks begin when they like: their operands are
/// rubbish before, and rubbish again as soon as they have ended. The sum is neither commutative nor associative for
/// Order::deterministic. Returns "" if all end with what was promised.
std::string run_on_numbers(std::span<const Problem> problems, std::span<const Schedule> schedules, Order order,
                           bool in_place, unsigned seed);

}  // namespace distdl::comm
