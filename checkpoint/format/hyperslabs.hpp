// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <distdl/tensor/shape.hpp>

// Rectangular parts of tensors: how a checkpoint cut in one way is read in another.
namespace distdl::checkpoint {

/// Whether `box` has the rank of `shape` and lies inside it.
bool lies_inside(const tensor::Box& box, const tensor::Shape& shape);

/// What two boxes of the same tensor share; nothing if that is empty.
std::optional<tensor::Box> intersection(const tensor::Box& one, const tensor::Box& other);

/// Whether the boxes, all inside `shape` and none empty, hold each element exactly once. In time that grows with their
/// number only; wrong with a probability below 1e-16, which whoever made the boxes cannot raise.
bool cover_exactly(const tensor::Shape& shape, const std::vector<tensor::Box>& boxes);

/// Elements that are contiguous in two boxes. Both boxes are dense and row-major; `from` and `to` are element offsets.
struct ElementRange {
  std::int64_t from = 0, to = 0, count = 0;
};
/// Visits the ranges of elements that `source` and `target` have in common, in ascending order of `from`.
void for_each_range(const tensor::Box& source, const tensor::Box& target,
                    const std::function<void(const ElementRange&)>& visit);

/// Cuts a tensor into boxes of at most `max_elements` that follow each other in row-major order.
void for_each_slab(const tensor::Shape& shape, std::int64_t max_elements,
                   const std::function<void(const tensor::Box&)>& visit);

}  // namespace distdl::checkpoint
