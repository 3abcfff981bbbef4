// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/optim/arena_ranges.hpp>
#include <distdl/optim/options.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::parallel::server {

constexpr int kMostGrowth = 2;

/// Returns the range of each server, in their order. A server with a lower cost per element (seconds, above 0) has more
/// elements, but at least about an eighth of an equal share and at most kMostGrowth shares. Small ranges seem slower
/// than they are, because each answer takes some time, whatever its size; large ones take memory. Ranges begin where
/// optim::shards_of() permits it: one may be empty if there are more servers than places to cut.
std::vector<optim::Elements> ranges_for(const optim::Options& options, const tensor::ArenaLayout& layout,
                                        const std::vector<double>& element_seconds);
/// Returns the ranges of servers that cost the same.
std::vector<optim::Elements> equal_ranges(const optim::Options& options, const tensor::ArenaLayout& layout,
                                          int servers);

/// Returns the seconds per step of the slowest server.
double slowest_seconds(const std::vector<optim::Elements>& ranges, const std::vector<double>& element_seconds);

}  // namespace distdl::parallel::server
