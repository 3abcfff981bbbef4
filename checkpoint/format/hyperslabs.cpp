// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/philox.hpp>
#include <distdl/base/random.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::Box;
using tensor::Shape;

/// The next index below `limit` in row-major order, over the first `dimensions` of them; false after the last.
bool advance(Shape& index, const Shape& limit, std::size_t dimensions) {
  for (std::size_t d = dimensions; d-- > 0;) {
    if (++index[d] < limit[d]) return true;
    index[d] = 0;
  }
  return false;
}

/// Element offset of `position` (coordinates of the tensor) in a dense box.
std::int64_t offset_in(const Box& box, const Shape& position) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < position.size(); ++d) offset = offset * box.extent[d] + position[d] - box.offset[d];
  return offset;
}

constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

__extension__ typedef unsigned __int128 Wide;  // ISO C++ has none; NOLINT(modernize-use-using)

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(Wide{a} * b % kPrime);
}

std::uint64_t place(std::uint64_t key, std::size_t dimension, std::int64_t at) {
  auto block = Philox::block(key, dimension, static_cast<std::uint64_t>(at));
  return (std::uint64_t{block[0]} << 32 | block[1]) % kPrime;
}
}  // namespace

bool lies_inside(const Box& box, const Shape& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (box.extent[d] < 0 || box.extent[d] > shape[d] || box.offset[d] < 0 || box.offset[d] > shape[d] - box.extent[d])
      return false;
  return true;
}

std::optional<Box> intersection(const Box& one, const Box& other) {
  Box shared = one;
  for (std::size_t d = 0; d < one.offset.size(); ++d) {
    std::int64_t begin = std::max(one.offset[d], other.offset[d]);
    std::int64_t end = std::min(one.offset[d] + one.extent[d], other.offset[d] + other.extent[d]);
    if (begin >= end) return std::nullopt;
    shared.offset[d] = begin;
    shared.extent[d] = end - begin;
  }
  return shared;
}

// One measures the tensor and its boxes in units that are random numbers: each boundary x of dimension d has a random
// place r(d, x) on a line, and a box the volume that its boundaries enclose. If the boxes hold each element exactly
// once, their volumes add up to the tensor's; if not, the difference is a polynomial in the r that is not zero, and a
// random point hits one of its zeros with a probability below 32 / 2^61 (J. T. Schwartz, "Fast probabilistic algorithms
// for verification of polynomial identities", JACM 27, 1980). Comparing boxes in pairs would take minutes where a
// manifest has a million of them.
bool cover_exactly(const Shape& shape, const std::vector<Box>& boxes) {
  static const std::uint64_t key = random_number();
  auto volume = [](const Shape& offset, const Shape& extent) {
    std::uint64_t product = 1;
    for (std::size_t d = 0; d < offset.size(); ++d) {
      std::uint64_t length = place(key, d, offset[d] + extent[d]) + (kPrime - place(key, d, offset[d]));
      product = multiply(product, length % kPrime);
    }
    return product;
  };
  std::uint64_t sum = 0;
  for (const Box& box : boxes) sum = (sum + volume(box.offset, box.extent)) % kPrime;
  return sum == volume(Shape(shape.size(), 0), shape);
}

void for_each_range(const Box& source, const Box& target, const std::function<void(const ElementRange&)>& visit) {
  auto shared = intersection(source, target);
  if (!shared) return;
  // Trailing dimensions that are whole in both boxes join into one range.
  std::size_t outer = shared->extent.size();
  std::int64_t count = 1;
  while (outer > 0) {
    --outer;
    count *= shared->extent[outer];
    if (shared->extent[outer] != source.extent[outer] || shared->extent[outer] != target.extent[outer]) break;
  }
  Shape index(shared->extent.size(), 0), position;
  do {
    position = shared->offset;
    for (std::size_t d = 0; d < outer; ++d) position[d] += index[d];
    visit({offset_in(source, position), offset_in(target, position), count});
  } while (advance(index, shared->extent, outer));
}

void for_each_slab(const Shape& shape, std::int64_t max_elements, const std::function<void(const Box&)>& visit) {
  if (tensor::element_count(shape) == 0) return;
  if (shape.empty()) return visit({});
  // Whole inner dimensions as long as they fit; `cut` is the dimension that is cut into pieces.
  std::size_t cut = shape.size() - 1;
  std::int64_t inner = 1;
  while (cut > 0 && inner * shape[cut] <= max_elements) inner *= shape[cut--];
  std::int64_t rows = std::max<std::int64_t>(1, max_elements / inner);
  Shape index(shape.size(), 0);
  do {
    for (std::int64_t begin = 0; begin < shape[cut]; begin += rows) {
      Box box{Shape(shape.size(), 0), shape};
      for (std::size_t d = 0; d < cut; ++d) box.offset[d] = index[d], box.extent[d] = 1;
      box.offset[cut] = begin;
      box.extent[cut] = std::min(rows, shape[cut] - begin);
      visit(box);
    }
  } while (advance(index, shape, cut));
}

}  // namespace distdl::checkpoint
