// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::parallel {

/// Elements [first, end) of a gradient arena, whose sum over the ranks is one operation.
struct Bucket {
  std::size_t first = 0, end = 0;
  std::size_t count() const { return end - first; }
  bool operator==(const Bucket&) const = default;
};

/// Returns the buckets of an arena of `count` floats, in the order in which a backward pass finishes them. `places`:
/// the places from which on the gradients are final, one after the other, descending from the totals to 0
/// (model::Network::places). The totals, which are known before the backward pass, are the first bucket; each other one
/// has at least `least` floats, except the last. An arena of no more than that, or without places, is one bucket.
std::vector<Bucket> buckets_of(std::span<const std::size_t> places, std::size_t count, std::size_t least);

/// Returns where tensors begin, descending from the end of an arena to 0, but not between two parts of one tensor.
std::vector<std::size_t> begins_of_tensors(const tensor::ArenaLayout& layout);

/// Returns the bucket size in floats with which all sums of an arena, plus the last one again, take the shortest time.
/// The end of the backward pass still waits for the last sum. Short buckets cost latency, long ones that wait.
/// `seconds`: time of a sum of so many floats. The result is a power of two from 256 KiB on, or `count`.
std::size_t best_bucket(std::size_t count, const std::function<double(std::size_t floats)>& seconds);

/// Returns the best bucket size by the communicator's costs, equal on all ranks. Where all ranks are on one host, their
/// processors do the work of a sum, so that it cannot be hidden: then one bucket is best.
std::size_t best_bucket(const comm::Communicator& communicator, const comm::Leaves& leaves, std::size_t count);

}  // namespace distdl::parallel
