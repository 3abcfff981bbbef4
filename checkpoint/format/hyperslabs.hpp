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

/// A stretch of elements that is contiguous in two boxes, each dense and row-major, at these element offsets.
struct ByteRange {
  std::int64_t from = 0, to = 0, count = 0;
};
/// The stretches that exchange_buffers what `source` and `target` share, in ascending order of `from`.
void for_each_stretch(const tensor::Box& source, const tensor::Box& target,
                      const std::function<void(const ByteRange&)>& visit);

/// Cuts a tensor into boxes of at most `max_elements` that follow each other in row-major order.
void for_each_slab(const tensor::Shape& shape, std::int64_t max_elements,
                   const std::function<void(const tensor::Box&)>& visit);

}  // namespace distdl::checkpoint
