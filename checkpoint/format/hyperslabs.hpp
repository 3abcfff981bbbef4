// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <distdl/tensor/shape.hpp>

// Rectangular parts of tensors: how a checkpoint that is divided in one way is read in another.
namespace distdl::checkpoint {

/// Whether `box` has as many dimensions as `shape` and lies inside it.
bool lies_inside(const tensor::Box& box, const tensor::Shape& shape);

/// The box that two boxes of the same tensor share. Returns nothing if that is empty.
std::optional<tensor::Box> intersection(const tensor::Box& one, const tensor::Box& other);

/// Whether the boxes contain each element exactly once. All boxes must lie inside `shape`, and none may be empty. The
/// time depends only on the number of boxes. The probability of a wrong answer is below 1e-16, and no choice of boxes
/// can raise it.
bool cover_exactly(const tensor::Shape& shape, const std::vector<tensor::Box>& boxes);

/// Elements that are contiguous in two boxes. Both boxes are dense and row-major; `from` and `to` are element offsets.
struct ElementRange {
  std::int64_t from = 0, to = 0, count = 0;
};
/// Visits the ranges of elements that `source` and `target` have in common, in ascending order of `from`.
void for_each_range(const tensor::Box& source, const tensor::Box& target,
                    const std::function<void(const ElementRange&)>& visit);

/// Divides a tensor into boxes of at most `max_elements` that follow each other in row-major order.
void for_each_slab(const tensor::Shape& shape, std::int64_t max_elements,
                   const std::function<void(const tensor::Box&)>& visit);

}  // namespace distdl::checkpoint
